#include "horovod_cpp/nn/models/models.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/nn/models/model_reference.h"
#include "test/support/message_of.h"

namespace hvd {
namespace models {
namespace {

struct Variant {
  const char* name;
  VGGVariant make;
  std::int64_t parameters;
};

constexpr Variant kVariants[] = {{"vgg11", vgg11, 132863336}, {"vgg11_bn", vgg11_bn, 132868840},
                                 {"vgg13", vgg13, 133047848}, {"vgg13_bn", vgg13_bn, 133053736},
                                 {"vgg16", vgg16, 138357544}, {"vgg16_bn", vgg16_bn, 138365992},
                                 {"vgg19", vgg19, 143667240}, {"vgg19_bn", vgg19_bn, 143678248}};

const VGGOptions kSmall = {.num_classes = 10, .cifar_head = true, .init_weights = false};

TEST(VGG, HasThePublishedNamesAndNumbersOfParameters) {
  for (const Variant& variant : kVariants) {
    const auto model = variant.make({.init_weights = false});
    EXPECT_EQ(count_parameters(*model), variant.parameters) << variant.name;
    ModelReference(variant.name).expect_state(*model);
  }
  const auto small = vgg11_bn(kSmall);
  EXPECT_EQ(count_parameters(*small), 9231114);
  ModelReference("vgg11_bn_cifar").expect_state(*small);
}

TEST(VGG, OfEveryDepthComputesWhatPyTorchDoes) {
  const NoGradGuard no_grad;
  for (const Variant& variant : kVariants) {
    const auto model = variant.make(kSmall);
    fill(*model);
    model->eval();
    ModelReference(std::string(variant.name) + "_cifar")
        .expect_close("output", (*model)(image(32)));
  }
}

TEST(VGG, HasPyTorchsGradients) {
  const auto model = vgg11_bn(kSmall);
  fill(*model);
  model->eval();
  ModelReference("vgg11_bn_cifar").expect_gradients(*model, {(*model)(image(32))});
}

TEST(VGG, WithTheClassifierOfImageNetTakesSmallImagesToo) {
  const NoGradGuard no_grad;
  const auto model = vgg11({.num_classes = 10, .init_weights = false});
  fill(*model);
  model->eval();
  ModelReference("vgg11").expect_close("output", (*model)(image(32)));
}

TEST(VGG, StartsWithKaimingConvolutionsAndNarrowLinearLayers) {
  manual_seed(3);
  const auto model = vgg11_bn({.num_classes = 10, .cifar_head = true});
  const auto deviation = [](const Tensor& tensor) {
    return std::sqrt(mean(tensor * tensor).item());
  };
  const NoGradGuard no_grad;
  for (const auto& [name, parameter] : model->named_parameters()) {
    if (parameter.dim() == 4) {
      const double expected = std::sqrt(2.0 / static_cast<double>(parameter.size(0) * 9));
      EXPECT_NEAR(deviation(parameter), expected, 0.05 * expected) << name;
    } else if (parameter.dim() == 2) {
      EXPECT_NEAR(deviation(parameter), 0.01, 0.001) << name;
    } else {
      EXPECT_EQ(parameter.to_vector(),
                std::vector<double>(static_cast<std::size_t>(parameter.numel()),
                                    name.ends_with("weight") ? 1.0 : 0.0))
          << name;
    }
  }
}

TEST(VGG, OfEqualSeedsAreEqual) {
  const auto weight = [] {
    manual_seed(7);
    return std::dynamic_pointer_cast<nn::Linear>(vgg11(VGGOptions{.cifar_head = true})->classifier)
        ->weight;
  };
  EXPECT_TRUE(bitwise_equal(weight(), weight()));
}

TEST(VGG, NamesTheLayerAndTheShapesThatDoNotFit) {
  const auto model = vgg11_bn(kSmall);
  const auto error = [&](const Shape& shape) {
    return message_of<InvalidArgumentError>([&] { (*model)(Tensor::zeros(shape)); });
  };
  EXPECT_EQ(error({2, 3, 16, 16}),
            "VGG: 'features.28' (MaxPool2d): max_pool2d: input [2, 512, 1, 1], "
            "kernel_size [2, 2], stride [2, 2], padding [0, 0]: no window fits, or padding is over "
            "half of the kernel, or one of them is above 2^31 - 1");
  EXPECT_EQ(error({2, 1, 32, 32}),
            "VGG: 'features.0' (Conv2d): conv2d: input [2, 1, 32, 32], weight [64, 3, 3, 3]: "
            "channels differ");
}

}  // namespace
}  // namespace models
}  // namespace hvd
