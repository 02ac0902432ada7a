#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/layers/pooling.h"

// Simonyan, Zisserman: "Very deep convolutional networks for large-scale image recognition", ICLR
// 2015; BatchNorm after each convolution in the _bn variants. Parameter names, layout and
// initialisation are torchvision's.
namespace hvd {
namespace models {

struct VGGOptions {
  std::int64_t num_classes = 1000;
  double dropout = 0.5;  // of the classifier's two hidden layers
  // One Linear(512, num_classes) in the place of the classifier of three layers, as is usual for
  // 32x32 images: 9 million parameters rather than 129 million. `dropout` is not used then.
  bool cifar_head = false;
  // Without, weights are left uninitialised: for values that come from a checkpoint.
  bool init_weights = true;
};

// Images [n, 3, h, w] -> scores [n, num_classes]; h and w at least 32 (224 for ImageNet).
class VGG : public nn::Module {
 public:
  // How many 3x3 convolutions each of the five stages of 64, 128, 256, 512 and 512 channels has.
  using Stages = std::array<int, 5>;

  VGG(const Stages& stages, bool batch_norm, const VGGOptions& options);
  Tensor forward(const Tensor& input) override;

  std::shared_ptr<nn::Sequential> features;
  std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool;
  std::shared_ptr<nn::Module> classifier;
};

std::shared_ptr<VGG> vgg11(const VGGOptions& options = {});
std::shared_ptr<VGG> vgg11_bn(const VGGOptions& options = {});
std::shared_ptr<VGG> vgg13(const VGGOptions& options = {});
std::shared_ptr<VGG> vgg13_bn(const VGGOptions& options = {});
std::shared_ptr<VGG> vgg16(const VGGOptions& options = {});
std::shared_ptr<VGG> vgg16_bn(const VGGOptions& options = {});
std::shared_ptr<VGG> vgg19(const VGGOptions& options = {});
std::shared_ptr<VGG> vgg19_bn(const VGGOptions& options = {});

}  // namespace models
}  // namespace hvd
