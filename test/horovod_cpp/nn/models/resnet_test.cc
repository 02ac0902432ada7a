#include "horovod_cpp/nn/models/models.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/nn/models/model_reference.h"
#include "test/support/message_of.h"

namespace hvd {
namespace models {
namespace {

const ResNetOptions kTen = {.num_classes = 10, .init_weights = false};

TEST(ResNet, HasThePublishedNamesAndNumbersOfParameters) {
  const ResNetOptions options = {.init_weights = false};
  const auto expect = [](const char* name, const ResNet& model, std::int64_t parameters) {
    EXPECT_EQ(count_parameters(model), parameters) << name;
    ModelReference(name).expect_state(model);
  };
  expect("resnet18", *resnet18(options), 11689512);
  expect("resnet34", *resnet34(options), 21797672);
  expect("resnet50", *resnet50(options), 25557032);
  expect("resnet18_cifar", *resnet18({.cifar_stem = true, .init_weights = false}), 11681832);
}

TEST(ResNet, OfEveryDepthComputesWhatPyTorchDoes) {
  const NoGradGuard no_grad;
  const auto check = [](const char* name, const std::shared_ptr<ResNet>& model) {
    fill(*model);
    model->eval();
    ModelReference(name).expect_close("output", (*model)(image(48)));
  };
  check("resnet18", resnet18(kTen));
  check("resnet34", resnet34(kTen));
}

TEST(ResNet, HasPyTorchsOutputsAndGradients) {
  const auto check = [](const char* name, const std::shared_ptr<ResNet>& model,
                        std::int64_t extent) {
    fill(*model);
    model->eval();
    const Tensor output = (*model)(image(extent));
    const ModelReference reference(name);
    reference.expect_close("output", output);
    reference.expect_gradients(*model, {output});
  };
  check("resnet50", resnet50(kTen), 48);
  check("resnet18_cifar", resnet18({.num_classes = 10, .cifar_stem = true, .init_weights = false}),
        32);
}

TEST(ResNet, StartsWithKaimingConvolutionsAndOnRequestWithBlocksThatAreTheIdentity) {
  manual_seed(3);
  const auto model = resnet18({.num_classes = 10, .zero_init_residual = true});
  const NoGradGuard no_grad;
  for (const auto& [name, parameter] : model->named_parameters()) {
    const double square = mean(parameter * parameter).item();
    if (parameter.dim() == 4) {
      const std::int64_t fan_out = parameter.size(0) * parameter.size(2) * parameter.size(3);
      EXPECT_NEAR(square * static_cast<double>(fan_out), 2.0, 0.1) << name;
    } else if (name == "fc.weight") {
      EXPECT_LT(max(parameter).item(), 1 / std::sqrt(512.0));
      EXPECT_NEAR(square * 512, 1.0 / 3, 0.03);
    } else if (name == "fc.bias") {
      EXPECT_GT(square, 0.0);
    } else {
      const bool zero = name.ends_with("bias") || name.ends_with("bn2.weight");
      EXPECT_EQ(square, zero ? 0.0 : 1.0) << name;
    }
  }
}

TEST(ResNet, NamesTheLayerAndTheShapesThatDoNotFit) {
  const auto model = resnet18(kTen);
  EXPECT_EQ(
      message_of<InvalidArgumentError>([&] {
        (*model)(Tensor::zeros({2, 4, 32, 32}));
      }),
      "ResNet: 'conv1' (Conv2d): conv2d: input [2, 4, 32, 32], weight [64, 3, 7, 7]: channels "
      "differ");
}

}  // namespace
}  // namespace models
}  // namespace hvd
