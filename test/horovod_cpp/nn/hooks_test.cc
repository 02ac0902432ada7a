#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/layers/layers.h"

namespace hvd {
namespace nn {
namespace {

using ::testing::ElementsAre;

Tensor row(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {1, count});
}

std::shared_ptr<Linear> doubling() {
  auto linear = std::make_shared<Linear>(1, 1, false);
  init::constant_(linear->weight, 2);
  return linear;
}

TEST(Hooks, SeeAndReplaceInputAndOutputInTheOrderTheyWereAdded) {
  const auto keep = doubling();
  std::vector<double> seen;
  keep->register_forward_pre_hook([&](Module&, const Tensor& input) {
    seen.push_back(input.item());
    return input + 1.0;
  });
  keep->register_forward_pre_hook([&](Module& module, const Tensor& input) {
    EXPECT_EQ(&module, keep.get());
    seen.push_back(input.item());
    return Tensor();
  });
  keep->register_forward_hook([&](Module&, const Tensor& input, const Tensor& output) {
    seen.push_back(input.item());
    seen.push_back(output.item());
    return output * 10.0;
  });
  EXPECT_EQ((*keep)(row({3})).item(), 80);
  EXPECT_THAT(seen, ElementsAre(3, 4, 4, 8));
}

TEST(Hooks, RunInsideASequentialAndGoOnRequest) {
  const auto linear = doubling();
  Sequential model(linear, ReLU());
  int calls = 0;
  const auto remove = linear->register_forward_hook([&](Module&, const Tensor&, const Tensor&) {
    ++calls;
    return Tensor();
  });
  model(row({1}));
  remove();
  model(row({1}));
  remove();  // has nothing left to do
  EXPECT_EQ(calls, 1);
}

TEST(Hooks, OfBackwardGetTheGradientsOfOutputAndInput) {
  const auto linear = doubling();
  std::vector<double> seen;
  linear->register_full_backward_hook(
      [&](Module&, const Tensor& grad_input, const Tensor& grad_output) {
        seen.push_back(grad_output.item());
        seen.push_back(grad_input.item());
        return grad_input * 100.0;
      });
  Tensor x = row({3});
  x.requires_grad_();
  sum((*linear)(x)*5.0).backward();
  EXPECT_THAT(seen, ElementsAre(5, 10));
  EXPECT_EQ(x.grad().item(), 1000);
  EXPECT_EQ(linear->weight.grad().item(), 15);
}

TEST(Hooks, OfBackwardRunWithoutAnInputsGradientToo) {
  const auto linear = doubling();
  double seen = 0;
  linear->register_full_backward_hook(
      [&](Module&, const Tensor& grad_input, const Tensor& grad_output) {
        EXPECT_FALSE(grad_input.defined());
        seen = grad_output.item();
        return Tensor();
      });
  sum((*linear)(row({3}))).backward();
  EXPECT_EQ(seen, 1);
}

TEST(Hooks, OfBackwardAreSilentOnceTheModuleIsGone) {
  auto linear = doubling();
  bool called = false;
  linear->register_full_backward_hook([&](Module&, const Tensor& grad_input, const Tensor&) {
    called = true;
    return grad_input;
  });
  Tensor x = row({3});
  x.requires_grad_();
  const Tensor output = sum((*linear)(x));
  linear.reset();
  output.backward();
  EXPECT_FALSE(called);
  EXPECT_EQ(x.grad().item(), 2);
}

TEST(Hooks, OfALayerWithMoreResultsSeeItsMainOnes) {
  LSTM lstm(2, 3);
  Shape shape;
  lstm.register_forward_hook([&](Module&, const Tensor&, const Tensor& output) {
    shape = output.shape();
    return output * 0.0;
  });
  const LstmOutput result = lstm(Tensor::ones({4, 1, 2}), {}, {});
  EXPECT_EQ(shape, (Shape{4, 1, 3}));
  EXPECT_EQ(max(result.output).item(), 0);
  EXPECT_NE(max(result.hidden).item(), 0);
}

}  // namespace
}  // namespace nn
}  // namespace hvd
