#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/batch_norm.h"
#include "horovod_cpp/nn/layers/convolution.h"
#include "horovod_cpp/nn/layers/pooling.h"

// He, Zhang, Ren, Sun: "Deep residual learning for image recognition", CVPR 2016. Parameter names,
// layout and initialisation are torchvision's, which halves images in the 3x3 convolution of a
// bottleneck rather than in the 1x1 before it.
namespace hvd {
namespace models {

struct ResNetOptions {
  std::int64_t num_classes = 1000;
  // The usual start for 32x32 images: a 3x3 convolution of stride 1 in the place of a 7x7 one of
  // stride 2, and no max pooling.
  bool cifar_stem = false;
  // The last BatchNorm of each block starts at 0, so that blocks start as the identity.
  bool zero_init_residual = false;
  // Without, weights are left uninitialised: for values that come from a checkpoint.
  bool init_weights = true;
};

// Images [n, 3, h, w] -> scores [n, num_classes], of any size (224 for ImageNet).
class ResNet : public nn::Module {
 public:
  enum class Block { kBasic, kBottleneck };  // two 3x3 convolutions; 1x1, 3x3, 1x1
  using Stages = std::array<int, 4>;         // blocks a stage

  ResNet(Block block, const Stages& stages, const ResNetOptions& options);
  Tensor forward(const Tensor& input) override;

  std::shared_ptr<nn::Conv2d> conv1;
  std::shared_ptr<nn::BatchNorm2d> bn1;
  std::shared_ptr<nn::Module> maxpool;
  std::array<std::shared_ptr<nn::Sequential>, 4> layers;  // "layer1" ... "layer4"
  std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool;
  std::shared_ptr<nn::Linear> fc;
};

std::shared_ptr<ResNet> resnet18(const ResNetOptions& options = {});
std::shared_ptr<ResNet> resnet34(const ResNetOptions& options = {});
std::shared_ptr<ResNet> resnet50(const ResNetOptions& options = {});

}  // namespace models
}  // namespace hvd
