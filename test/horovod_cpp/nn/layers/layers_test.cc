#include "horovod_cpp/nn/layers/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/random.h"
#include "test/support/message_of.h"

namespace hvd {
namespace nn {
namespace {

using ::testing::HasSubstr;

Tensor tensor(std::vector<float> values, Shape shape) {
  return Tensor::from(values, std::move(shape));
}

TEST(Linear, LeavesTheBiasOutOnRequest) {
  Linear linear(2, 1, /*bias=*/false);
  EXPECT_FALSE(linear.bias.defined());
  EXPECT_EQ(linear.parameters().size(), 1u);
  linear.load_state_dict({{"weight", tensor({1, 2}, {1, 2})}});
  EXPECT_EQ(linear(tensor({3, 4}, {1, 2})).item(), 11);
}

TEST(Conv2d, HasAWeightForEveryPairOfChannels) {
  const Conv2d conv(3, 8, 5, 1, 2, /*bias=*/false);
  EXPECT_EQ(conv.weight.shape(), (Shape{8, 3, 5, 5}));
  EXPECT_EQ(conv.parameters().size(), 1u);
}

TEST(BatchNorm2d, CountsItsBatchesInTrainingOnly) {
  BatchNorm2d norm(1);
  const Tensor input = tensor({1, 3, 1, 3}, {2, 1, 1, 2});
  norm(input);
  norm(input);
  norm.eval();
  norm(input);
  EXPECT_EQ(norm.num_batches_tracked.item(), 2);
}

TEST(Dropout, IsTheFunctionInTrainingAndNothingInEvaluation) {
  Dropout layer(0.25);
  const Tensor input = Tensor::ones({1000});
  manual_seed(3);
  const Tensor output = layer(input);
  manual_seed(3);
  EXPECT_TRUE(bitwise_equal(output, dropout(input, 0.25, true)));
  EXPECT_FALSE(bitwise_equal(output, input));
  layer.eval();
  EXPECT_TRUE(bitwise_equal(layer(input), input));
}

TEST(Flatten, JoinsTheAxesFromTheStart) {
  const Tensor input = Tensor::zeros({2, 3, 4, 5});
  EXPECT_EQ(Flatten()(input).shape(), (Shape{2, 60}));
  EXPECT_EQ(Flatten(2)(input).shape(), (Shape{2, 3, 20}));
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
