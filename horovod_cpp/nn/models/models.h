#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/convolution.h"
#include "horovod_cpp/nn/layers/normalization.h"
#include "horovod_cpp/nn/module.h"

namespace hvd::models {

// Modules one after the other, whatever their names are and whoever holds them.
using Chain = std::vector<std::shared_ptr<nn::Module>>;

// Calls `function` on every `Layer` below `model`, in the order of registration.
template <std::derived_from<nn::Module> Layer, std::invocable<Layer&> Function>
void for_each_layer(const nn::Module& model, const Function& function) {
  for (const auto& entry : model.named_descendants()) {
    if (auto* layer = dynamic_cast<Layer*>(entry.second.get())) function(*layer);
  }
}

// The single-column variant of Krizhevsky: "One weird trick for parallelizing convolutional neural
// networks", 2014. Parameter names, layout and initialisation are torchvision's.

struct AlexNetOptions {
  std::int64_t num_classes = 1000;
  double dropout = 0.5;  // before the classifier's two hidden layers
  // Without, weights are left uninitialised: for values that come from a checkpoint.
  bool init_weights = true;
};

// Images [n, 3, h, w] -> scores [n, num_classes]; h and w at least 63 (224 for ImageNet).
class AlexNet : public nn::Module {
 public:
  explicit AlexNet(const AlexNetOptions& options);
  Tensor forward(const Tensor& input) override;

  std::shared_ptr<nn::Sequential> features;
  std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool;
  std::shared_ptr<nn::Sequential> classifier;
};

inline std::shared_ptr<AlexNet> alexnet(const AlexNetOptions& options = {}) {
  return std::make_shared<AlexNet>(options);
}

// Simonyan, Zisserman: "Very deep convolutional networks for large-scale image recognition", ICLR
// 2015; BatchNorm after each convolution in the _bn variants. Parameter names, layout and
// initialisation are torchvision's.

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

struct VGGVariant {
  std::shared_ptr<VGG> operator()(const VGGOptions& options = {}) const {
    return std::make_shared<VGG>(stages, batch_norm, options);
  }
  VGG::Stages stages;
  bool batch_norm = false;
};

inline constexpr VGGVariant vgg11{{1, 1, 2, 2, 2}}, vgg11_bn{{1, 1, 2, 2, 2}, true};
inline constexpr VGGVariant vgg13{{2, 2, 2, 2, 2}}, vgg13_bn{{2, 2, 2, 2, 2}, true};
inline constexpr VGGVariant vgg16{{2, 2, 3, 3, 3}}, vgg16_bn{{2, 2, 3, 3, 3}, true};
inline constexpr VGGVariant vgg19{{2, 2, 4, 4, 4}}, vgg19_bn{{2, 2, 4, 4, 4}, true};

// He, Zhang, Ren, Sun: "Deep residual learning for image recognition", CVPR 2016. Parameter names,
// layout and initialisation are torchvision's, which halves images in the 3x3 convolution of a
// bottleneck rather than in the 1x1 before it.

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
  using Stages = std::array<int, 4>;         // blocks per stage

  ResNet(Block block, const Stages& stages, const ResNetOptions& options);
  Tensor forward(const Tensor& input) override;

  std::shared_ptr<nn::Conv2d> conv1;
  std::shared_ptr<nn::BatchNorm2d> bn1;
  std::shared_ptr<nn::Module> maxpool;
  std::array<std::shared_ptr<nn::Sequential>, 4> layers;  // "layer1" ... "layer4"
  std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool;
  std::shared_ptr<nn::Linear> fc;
};

struct ResNetVariant {
  std::shared_ptr<ResNet> operator()(const ResNetOptions& options = {}) const {
    return std::make_shared<ResNet>(block, stages, options);
  }
  ResNet::Block block;
  ResNet::Stages stages;
};

inline constexpr ResNetVariant resnet18{ResNet::Block::kBasic, {2, 2, 2, 2}};
inline constexpr ResNetVariant resnet34{ResNet::Block::kBasic, {3, 4, 6, 3}};
inline constexpr ResNetVariant resnet50{ResNet::Block::kBottleneck, {3, 4, 6, 3}};

// Szegedy and others: "Going deeper with convolutions", CVPR 2015, with BatchNorm. Parameter names,
// layout (3x3 kernels where the paper has 5x5 ones) and initialisation are torchvision's.

struct GoogLeNetOptions {
  std::int64_t num_classes = 1000;
  bool aux_logits = true;  // two more classifiers along the way, for training
  // The input is normalised with ImageNet's means and deviations, channel by channel, and the
  // weights come from TensorFlow, which expects 0.5 and 0.5.
  bool transform_input = false;
  double dropout = 0.2;
  double dropout_aux = 0.7;
  // Without, weights are left uninitialised: for values that come from a checkpoint.
  bool init_weights = true;
};

struct GoogLeNetOutputs {
  Tensor logits;
  Tensor aux_logits2;  // of the later one; both undefined in evaluation and without aux_logits
  Tensor aux_logits1;
};

// Images [n, 3, h, w] -> scores [n, num_classes], of any size from 15 (224 for ImageNet).
class GoogLeNet : public nn::Module {
 public:
  explicit GoogLeNet(const GoogLeNetOptions& options);
  // The logits alone; the auxiliary classifiers do not run.
  Tensor forward(const Tensor& input) override { return compute(input, false).logits; }
  // Between the hooks, as operator(). The usual loss adds those of the auxiliary ones times 0.3.
  GoogLeNetOutputs outputs(const Tensor& input);

  std::shared_ptr<nn::Module> aux1;  // null without aux_logits
  std::shared_ptr<nn::Module> aux2;
  std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool;
  std::shared_ptr<nn::Dropout> dropout;
  std::shared_ptr<nn::Linear> fc;

 private:
  GoogLeNetOutputs compute(const Tensor& input, bool with_aux);

  bool transform_input_;
  Chain to_aux1_, to_aux2_, to_end_;
};

inline std::shared_ptr<GoogLeNet> googlenet(const GoogLeNetOptions& options = {}) {
  return std::make_shared<GoogLeNet>(options);
}

// Szegedy, Vanhoucke, Ioffe, Shlens, Wojna: "Rethinking the Inception architecture for computer
// vision", CVPR 2016. Parameter names, layout and initialisation are torchvision's.

struct Inception3Options {
  std::int64_t num_classes = 1000;
  bool aux_logits = true;  // one more classifier along the way, for training
  // The input is normalised with ImageNet's means and deviations, channel by channel, and the
  // weights come from TensorFlow, which expects 0.5 and 0.5.
  bool transform_input = false;
  double dropout = 0.5;
  // Without, weights are left uninitialised: for values that come from a checkpoint.
  bool init_weights = true;
};

struct InceptionOutputs {
  Tensor logits;
  Tensor aux_logits;  // undefined in evaluation and without aux_logits
};

// Images [n, 3, h, w] -> scores [n, num_classes]; h and w at least 75 (299 for ImageNet), and at
// least 299 where the auxiliary classifier runs.
class Inception3 : public nn::Module {
 public:
  explicit Inception3(const Inception3Options& options);
  // The logits alone; the auxiliary classifier does not run.
  Tensor forward(const Tensor& input) override { return compute(input, false).logits; }
  // Between the hooks, as operator(). The usual loss adds that of the auxiliary one times 0.4.
  InceptionOutputs outputs(const Tensor& input);

  std::shared_ptr<nn::Module> aux;  // "AuxLogits"; null without aux_logits
  std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool;
  std::shared_ptr<nn::Dropout> dropout;
  std::shared_ptr<nn::Linear> fc;

 private:
  InceptionOutputs compute(const Tensor& input, bool with_aux);

  bool transform_input_;
  Chain to_aux_, to_end_;
};

inline std::shared_ptr<Inception3> inception_v3(const Inception3Options& options = {}) {
  return std::make_shared<Inception3>(options);
}

}  // namespace hvd::models
