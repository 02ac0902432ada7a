#include "horovod_cpp/nn/models/vgg.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/nn/models/model_reference.h"

namespace hvd {
namespace models {
namespace {

TEST(VGG, HasAsManyParametersAsPublished) {
  const VGGOptions options = {.init_weights = false};
  EXPECT_EQ(count_parameters(*vgg11(options)), 132863336);
  EXPECT_EQ(count_parameters(*vgg11_bn(options)), 132868840);
  EXPECT_EQ(count_parameters(*vgg13(options)), 133047848);
  EXPECT_EQ(count_parameters(*vgg13_bn(options)), 133053736);
  EXPECT_EQ(count_parameters(*vgg16(options)), 138357544);
  EXPECT_EQ(count_parameters(*vgg16_bn(options)), 138365992);
  EXPECT_EQ(count_parameters(*vgg19(options)), 143667240);
  EXPECT_EQ(count_parameters(*vgg19_bn(options)), 143678248);
}

TEST(VGG, NamesTheLayerAndTheShapesThatDoNotFit) {
  const auto model = vgg11_bn({.num_classes = 10, .cifar_head = true});
  const auto error = [&](const Shape& shape) {
    return message_of<InvalidArgumentError>([&] { (*model)(Tensor::zeros(shape)); });
  };
  EXPECT_EQ(error({2, 3, 16, 16}),
            "VGG: 'features.28' (MaxPool2d): max_pool2d: input [2, 512, 1, 1], kernel 2, stride 2");
  EXPECT_EQ(error({2, 1, 32, 32}),
            "VGG: 'features.0' (Conv2d): conv2d: input [2, 1, 32, 32], weight [64, 3, 3, 3]: "
            "channels differ");
}

}  // namespace
}  // namespace models
}  // namespace hvd
