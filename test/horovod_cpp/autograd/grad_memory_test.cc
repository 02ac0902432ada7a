// Gradients that are computed where grad_memory() is.
#include "horovod_cpp/autograd/grad_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/kernels/convolution/convolution.h"
#include "horovod_cpp/tensor/kernels/matmul/matmul.h"
#include "horovod_cpp/tensor/layout.h"

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

Tensor numbers(const Shape& shape, int step) {
  Tensor tensor = Tensor::empty(shape);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<float>()[i] = static_cast<float>(i * step % 7 - 3);
  }
  return tensor;
}

using Loss = std::function<Tensor(const Tensor& input, const Tensor& weight)>;

Tensor linear_loss(const Tensor& input, const Tensor& weight) {
  return sum(linear(input, weight, {}) * linear(input, weight.detach(), {}));
}

Tensor conv_loss(const Tensor& input, const Tensor& weight) {
  return sum(conv2d(input, weight, {}, 1, 1) * conv2d(input, weight.detach(), {}, 1, 1));
}

// What backward() leaves, with the gradient in memory of its own or in a given one.
Tensor gradient_of(const Loss& loss, const Tensor& input, const Shape& shape, const Tensor& place) {
  Tensor weight = numbers(shape, 3).requires_grad_();
  set_grad_memory(weight, place);
  loss(input, weight).backward();
  return weight.grad();
}

void expect_same(const Loss& loss, const Tensor& input, const Shape& shape) {
  const Tensor place = Tensor::full(shape, 99);
  const Tensor want = gradient_of(loss, input, shape, {});
  const Tensor got = gradient_of(loss, input, shape, place);
  EXPECT_EQ(got.data(), place.data());
  EXPECT_EQ(got.to_vector(), want.to_vector());
}

TEST(GradientPlace, LinearAndConvolutionGiveTheSameGradientThere) {
  expect_same(linear_loss, numbers({4, 5}, 2), {3, 5});
  expect_same(conv_loss, numbers({2, 3, 4, 4}, 2), {5, 3, 3, 3});
}

TEST(GradientPlace, ASquareWeightAndItsInputKeepTheirGradientsApart) {
  const Tensor input = numbers({4, 4}, 2).requires_grad_();
  const Tensor want = gradient_of(linear_loss, input, {4, 4}, {});
  const auto want_of_input = input.grad().to_vector();
  const Tensor again = numbers({4, 4}, 2).requires_grad_();
  const Tensor got = gradient_of(linear_loss, again, {4, 4}, Tensor::full({4, 4}, 99));
  EXPECT_EQ(got.to_vector(), want.to_vector());
  EXPECT_EQ(again.grad().to_vector(), want_of_input);
}

TEST(GradientPlace, AWeightThatIsUsedTwiceHasTheSum) {
  const Loss twice = [](const Tensor& input, const Tensor& weight) {
    return sum(linear(relu(linear(input, weight, {})), weight, {}));
  };
  expect_same(twice, numbers({2, 4}, 2), {4, 4});
}

TEST(GradientPlace, ASecondPassAddsToTheFirst) {
  const Loss again = [](const Tensor& input, const Tensor& weight) {
    linear_loss(input, weight).backward();
    return linear_loss(input * 2.0, weight);
  };
  expect_same(again, numbers({4, 5}, 2), {3, 5});
}

// An old gradient is the input of a new pass: its memory is read while the gradient is computed.
TEST(GradientPlace, AnInputThatLiesThereIsReadBeforeItIsOverwritten) {
  const Tensor place = numbers({4, 4}, 2);
  const Tensor want = gradient_of(linear_loss, place.clone(), {4, 4}, {});
  const Tensor got = gradient_of(linear_loss, place.detach().t(), {4, 4}, place);
  const Tensor want_transposed = gradient_of(linear_loss, numbers({4, 4}, 2).t(), {4, 4}, {});
  EXPECT_EQ(got.to_vector(), want_transposed.to_vector());
  EXPECT_NE(got.to_vector(), want.to_vector());
}

TEST(GradientPlace, KernelsTakeAPlaceThatFitsAndNoOther) {
  const Tensor a = numbers({2, 3}, 2);
  const Tensor b = numbers({3, 4}, 3);
  const Tensor place = Tensor::empty({2, 4});
  EXPECT_TRUE(kernels::matmul(a, false, b, false, "matmul", place).is(place));
  EXPECT_FALSE(kernels::in_place_of(place, {4, 2}, a, b).is(place));
  EXPECT_FALSE(kernels::in_place_of(place, {2, 4}, a.to(DType::kF64), b).is(place));
  EXPECT_FALSE(kernels::in_place_of(place, {2, 4}, a, place.slice(0, 1, 2)).is(place));
  EXPECT_TRUE(kernels::in_place_of(place, {2, 4}, a, b).is(place));
}

TEST(GradientPlace, IsNowhereOutsideOfAPass) {
  EXPECT_FALSE(autograd::gradient_place(1).defined());
}

}  // namespace
}  // namespace hvd
