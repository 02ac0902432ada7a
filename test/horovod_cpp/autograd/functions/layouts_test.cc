// Values and gradients do not depend on where a tensor's elements lie, and nothing is written where
// several of them lie in one place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/kernels/indexing/indexing.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Layouts, LossesOfOneExampleTakeAColumn) {
  const Tensor matrix = values({-8, 9, -1, 8, -4, 7}, {3, 2}).requires_grad_();
  const Tensor column = matrix.select(1, 0);
  const Tensor target = integers({2}, {}).reshape({});
  EXPECT_NEAR(cross_entropy(column, target).item(), 3.04946, 1e-5);
  EXPECT_EQ(nll_loss(column, target).item(), 4);
  const Tensor dense = column.detach().clone().requires_grad_();
  cross_entropy(column, target).backward();
  cross_entropy(dense, target).backward();
  EXPECT_EQ(matrix.grad().select(1, 0).to_vector(), dense.grad().to_vector());
}

TEST(Layouts, LossesOfOneExampleTakeAnExpandedTensor) {
  const Tensor one = values({1}, {1}).expand({1000});
  EXPECT_NEAR(cross_entropy(one, Tensor::scalar(999, DType::kI64)).item(), std::log(1000), 1e-9);
}

TEST(Layouts, RowsOfTablesMayBeStrided) {
  const Tensor table = values({1, 2, 3, 4, 5, 6}, {2, 3}).t();
  const Tensor positions = integers({2, 9, 0, 9, 2, 9}, {3, 2}).select(1, 0);
  EXPECT_EQ(kernels::gather_rows(table, positions).to_vector(), (V{3, 6, 1, 4, 3, 6}));
  kernels::add_rows(table, positions, values({1, 2, 3, 4, 5, 6}, {3, 2}));
  EXPECT_EQ(table.to_vector(), (V{4, 8, 2, 5, 9, 14}));
}

TEST(Layouts, NothingIsWrittenIntoExpandedTensors) {
  const Tensor zeros = Tensor::zeros({1}).expand({3});
  const auto expanded = AllOf(HasSubstr("[3]"), HasSubstr("expanded"), HasSubstr("clone()"));
  const Tensor at = integers({0, 2}, {2});
  EXPECT_THAT(error_of([&] { scatter_(zeros, 0, at, Tensor::ones({2})); }), expanded);
  EXPECT_THAT(error_of([&] { scatter_add_(zeros, 0, at, Tensor::ones({2})); }), expanded);
  EXPECT_THAT(error_of([&] { index_put_(zeros, {at}, Tensor::ones({2})); }), expanded);
  EXPECT_THAT(error_of([&] { uniform_(zeros); }), expanded);
  EXPECT_THAT(error_of([&] { normal_(zeros); }), expanded);
  Tensor mean = zeros, variance = Tensor::ones({3});
  const Tensor images = Tensor::ones({2, 3, 2, 2});
  EXPECT_THAT(error_of([&] {
                batch_norm(images, Tensor::ones({3}), Tensor::zeros({3}), mean, variance, true);
              }),
              AllOf(expanded, HasSubstr("running_mean")));
  EXPECT_THAT(error_of([&] {
                batch_norm(images, Tensor::ones({3}), Tensor::zeros({3}), variance, mean, true);
              }),
              AllOf(expanded, HasSubstr("running_var")));
  EXPECT_EQ(variance.to_vector(), (V{1, 1, 1}));
  EXPECT_EQ(zeros.to_vector(), (V{0, 0, 0}));
  batch_norm(images, Tensor::ones({3}), Tensor::zeros({3}), mean, variance, false);
}

TEST(Layouts, GradcheckNamesAnExpandedInput) {
  const Tensor expanded = values({2}, {1}).expand({3}).requires_grad_();
  EXPECT_THAT(error_of([&] {
                gradcheck([](const Inputs& in) { return in[0] * in[1]; }, {leaf({3}), expanded});
              }),
              AllOf(HasSubstr("input 1"), HasSubstr("expanded")));
}

TEST(Layouts, GradientsAddToAnExpandedOne) {
  const Tensor x = leaf({3});
  Tensor holder = x;
  holder.set_grad(Tensor::ones({1}, DType::kF64).expand({3}));
  sum(x * values({1, 2, 3}, {3})).backward();
  EXPECT_EQ(x.grad().to_vector(), (V{2, 3, 4}));
}

}  // namespace
}  // namespace hvd
