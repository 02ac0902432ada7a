#include "horovod_cpp/nn/layers/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor tensor(std::vector<float> values, Shape shape) {
  return Tensor::from(values, std::move(shape));
}

TEST(Linear, MultipliesAndAdds) {
  Linear linear(2, 3);
  linear.load_state_dict(
      {{"weight", tensor({1, 2, 3, 4, 5, 6}, {3, 2})}, {"bias", tensor({10, 20, 30}, {3})}});
  const Tensor output = linear(tensor({1, 1, 2, 0}, {2, 2}));
  EXPECT_EQ(output.shape(), (Shape{2, 3}));
  EXPECT_THAT(output.to_vector(), ElementsAre(13, 27, 41, 12, 26, 40));
}

TEST(Linear, LeavesTheBiasOutOnRequest) {
  Linear linear(2, 1, /*bias=*/false);
  EXPECT_FALSE(linear.bias.defined());
  EXPECT_EQ(linear.parameters().size(), 1u);
  linear.load_state_dict({{"weight", tensor({1, 2}, {1, 2})}});
  EXPECT_EQ(linear(tensor({3, 4}, {1, 2})).item(), 11);
}

TEST(Linear, SendsGradientsToItsParameters) {
  Linear linear(2, 1);
  sum(linear(tensor({1, 2, 3, 4}, {2, 2}))).backward();
  EXPECT_THAT(linear.weight.grad().to_vector(), ElementsAre(4, 6));
  EXPECT_THAT(linear.bias.grad().to_vector(), ElementsAre(2));
}

TEST(Conv2d, SlidesItsKernelWithStrideAndPadding) {
  Conv2d conv(1, 1, 2, /*stride=*/2, /*padding=*/1);
  conv.load_state_dict(
      {{"weight", tensor({1, 2, 3, 4}, {1, 1, 2, 2})}, {"bias", tensor({100}, {1})}});
  const Tensor output = conv(tensor({1, 2, 3, 4}, {1, 1, 2, 2}));
  EXPECT_EQ(output.shape(), (Shape{1, 1, 2, 2}));
  // Each window meets one pixel: 4 * 1, 3 * 2, 2 * 3, 1 * 4.
  EXPECT_THAT(output.to_vector(), ElementsAre(104, 106, 106, 104));
}

TEST(Conv2d, HasAWeightForEveryPairOfChannels) {
  const Conv2d conv(3, 8, 5, 1, 2, /*bias=*/false);
  EXPECT_EQ(conv.weight.shape(), (Shape{8, 3, 5, 5}));
  EXPECT_EQ(conv.parameters().size(), 1u);
}

TEST(BatchNorm2d, NormalisesABatchAndMovesItsStatistics) {
  BatchNorm2d norm(1, /*eps=*/0.0, /*momentum=*/0.5);
  const Tensor input = tensor({1, 3, 1, 3}, {2, 1, 1, 2});  // mean 2, variance 1, unbiased 4/3
  EXPECT_THAT(norm(input).to_vector(), ElementsAre(-1, 1, -1, 1));
  EXPECT_EQ(norm.running_mean.item(), 1);  // 0.5 * 0 + 0.5 * 2
  EXPECT_NEAR(norm.running_var.item(), 0.5 + 0.5 * 4 / 3, 1e-6);
  EXPECT_EQ(norm.num_batches_tracked.item(), 1);
  norm(input);
  EXPECT_EQ(norm.running_mean.item(), 1.5);
  EXPECT_EQ(norm.num_batches_tracked.item(), 2);
}

TEST(BatchNorm2d, UsesAndKeepsItsStatisticsInEvaluation) {
  BatchNorm2d norm(1, 0.0);
  norm.load_state_dict({{"weight", tensor({3}, {1})},
                        {"bias", tensor({1}, {1})},
                        {"running_mean", tensor({2}, {1})},
                        {"running_var", tensor({4}, {1})},
                        {"num_batches_tracked", Tensor::full({}, 7, DType::kI64)}});
  norm.eval();
  EXPECT_THAT(norm(tensor({2, 6}, {1, 1, 1, 2})).to_vector(), ElementsAre(1, 7));
  EXPECT_EQ(norm.running_mean.item(), 2);
  EXPECT_EQ(norm.running_var.item(), 4);
  EXPECT_EQ(norm.num_batches_tracked.item(), 7);
}

TEST(MaxPool2d, TakesTheLargestOfEachWindow) {
  const Tensor input = tensor({1, 2, 5, 3, 4, 0, 6, 7, 8}, {1, 1, 3, 3});
  EXPECT_THAT(MaxPool2d(2)(input).to_vector(), ElementsAre(4));
  EXPECT_THAT(MaxPool2d(2, 1)(input).to_vector(), ElementsAre(4, 5, 7, 8));
}

TEST(ReLU, ClipsBelowZero) {
  EXPECT_THAT(ReLU()(tensor({-1, 0, 2}, {3})).to_vector(), ElementsAre(0, 0, 2));
}

TEST(Flatten, JoinsTheAxesFromTheStart) {
  const Tensor input = Tensor::zeros({2, 3, 4, 5});
  EXPECT_EQ(Flatten()(input).shape(), (Shape{2, 60}));
  EXPECT_EQ(Flatten(2)(input).shape(), (Shape{2, 3, 20}));
}

TEST(Dropout, ZeroesAndScalesInTrainingOnly) {
  Dropout dropout(0.25);
  const Tensor input = Tensor::ones({10000});
  const std::vector<double> output = dropout(input).to_vector();
  const auto zeros = std::ranges::count(output, 0.0);
  EXPECT_NEAR(static_cast<double>(zeros), 2500, 250);  // five standard deviations are 217
  EXPECT_EQ(zeros + std::ranges::count(output, static_cast<double>(1.0f / 0.75f)), 10000);
  dropout.eval();
  EXPECT_THAT(dropout(input).to_vector(), Each(1));
}

TEST(Losses, AreMeansOverTheBatch) {
  const Tensor logits = tensor({0, 0, 0, 0, std::log(3.0f), 0}, {3, 2});
  const std::vector<std::int64_t> targets = {0, 1, 0};
  const double loss = CrossEntropyLoss()(logits, Tensor::from(targets, {3})).item();
  EXPECT_NEAR(loss, (2 * std::log(2.0) + std::log(4.0 / 3.0)) / 3, 1e-6);
  EXPECT_EQ(MSELoss()(tensor({1, 2}, {2}), tensor({3, 2}, {2})).item(), 2);
}

TEST(Layers, NameTheArgumentThatMakesNoSense) {
  const auto error = [](const std::function<void()>& make) {
    return message_of<InvalidArgumentError>(make);
  };
  EXPECT_EQ(error([] { Linear(0, 1); }), "Linear: in_features=0: expected at least 1");
  EXPECT_EQ(error([] { Linear(1, -1); }), "Linear: out_features=-1: expected at least 1");
  EXPECT_EQ(error([] { Conv2d(0, 1, 1); }), "Conv2d: in_channels=0: expected at least 1");
  EXPECT_EQ(error([] { Conv2d(1, 0, 1); }), "Conv2d: out_channels=0: expected at least 1");
  EXPECT_EQ(error([] { Conv2d(1, 1, 0); }), "Conv2d: kernel_size=0: expected at least 1");
  EXPECT_EQ(error([] { Conv2d(1, 1, 1, 0); }), "Conv2d: stride=0: expected at least 1");
  EXPECT_EQ(error([] { Conv2d(1, 1, 1, 1, -1); }), "Conv2d: padding=-1: expected at least 0");
  EXPECT_EQ(error([] { BatchNorm2d(0); }), "BatchNorm2d: num_features=0: expected at least 1");
  EXPECT_EQ(error([] { MaxPool2d(0); }), "MaxPool2d: kernel_size=0: expected at least 1");
  EXPECT_EQ(error([] { MaxPool2d(2, -1); }), "MaxPool2d: stride=-1: expected at least 1");
  EXPECT_THAT(error([] { Dropout(1.5); }), HasSubstr("p=1.5"));
  EXPECT_THAT(error([] { Dropout(std::nan("")); }), HasSubstr("expected 0 <= p <= 1"));
}

TEST(Layers, RefuseAnInputThatDoesNotFit) {
  Linear linear(2, 1);
  EXPECT_THROW(linear(Tensor::zeros({1, 3})), InvalidArgumentError);
  Conv2d conv(2, 1, 3);
  EXPECT_THROW(conv(Tensor::zeros({1, 3, 8, 8})), InvalidArgumentError);
  EXPECT_THROW(conv(Tensor::zeros({1, 2, 2, 2})), InvalidArgumentError);
  BatchNorm2d norm(2);
  EXPECT_THROW(norm(Tensor::zeros({1, 3, 2, 2})), InvalidArgumentError);
  EXPECT_EQ(norm.num_batches_tracked.item(), 0);
}

}  // namespace
}  // namespace nn
}  // namespace hvd
