#include "horovod_cpp/autograd/grad_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;

TEST(GradMemory, IsWhereBackwardPutsAFreshGradient) {
  Tensor leaf = Tensor::ones({2}).requires_grad_();
  const Tensor memory = Tensor::full({2}, 7);
  set_grad_memory(leaf, memory);
  EXPECT_FALSE(leaf.grad().defined());
  for (int round = 0; round < 2; ++round) {
    sum(leaf * 3.0).backward();
    EXPECT_TRUE(leaf.grad().is(memory));
    EXPECT_THAT(memory.to_vector(), ElementsAre(3, 3));  // not added to what was there
    sum(leaf * 1.0).backward();
    EXPECT_THAT(memory.to_vector(), ElementsAre(4, 4));
    leaf.set_grad({});
  }
  set_grad_memory(leaf, {});
  sum(leaf).backward();
  EXPECT_FALSE(leaf.grad().is(memory));
}

TEST(GradMemory, AGradientThatIsThereStaysWhereItIs) {
  Tensor leaf = Tensor::ones({2}).requires_grad_();
  const Tensor own = Tensor::ones({2});
  leaf.set_grad(own);
  set_grad_memory(leaf, Tensor::zeros({2}));
  sum(leaf).backward();
  EXPECT_TRUE(leaf.grad().is(own));
  EXPECT_THAT(own.to_vector(), ElementsAre(2, 2));
}

TEST(GradMemory, HasTheLeafsShapeAndDtypeAndNoGaps) {
  Tensor leaf = Tensor::ones({2, 2}).requires_grad_();
  EXPECT_THROW(set_grad_memory(leaf, Tensor::ones({4})), InvalidArgumentError);
  EXPECT_THROW(set_grad_memory(leaf, Tensor::ones({2, 2}, DType::kF64)), InvalidArgumentError);
  EXPECT_THROW(set_grad_memory(leaf, Tensor::ones({2, 2}).t()), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd
