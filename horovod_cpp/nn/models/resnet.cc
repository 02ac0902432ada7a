#include "horovod_cpp/nn/models/resnet.h"

#include <string>
#include <utility>
#include <vector>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/models/basic_conv.h"

namespace hvd {
namespace models {
namespace {

struct BodyConvolution {
  std::int64_t channels;  // that come out
  std::int64_t kernel_size;
  std::int64_t stride = 1;
};

nn::Conv2d make_convolution(std::int64_t in_channels, const BodyConvolution& shape) {
  return nn::Conv2d(in_channels, shape.channels, shape.kernel_size, shape.stride,
                    shape.kernel_size / 2, false);
}

// relu(body(x) + shortcut(x)): the body is convolutions "conv1", "conv2", ... each with its
// BatchNorm "bn1", ..., and ReLU between them; the shortcut is "downsample", or x itself where the
// shapes agree.
class ResidualBlock : public nn::Module {
 public:
  ResidualBlock(std::int64_t in_channels, std::int64_t stride,
                const std::vector<BodyConvolution>& body) {
    std::int64_t channels = in_channels;
    for (const BodyConvolution& shape : body) {
      const std::string number = std::to_string(convs_.size() + 1);
      convs_.push_back(register_module("conv" + number, make_convolution(channels, shape)));
      norms_.push_back(register_module("bn" + number, nn::BatchNorm2d(shape.channels)));
      channels = shape.channels;
    }
    if (stride == 1 && channels == in_channels) return;
    downsample_ = register_module(
        "downsample", nn::Sequential(make_convolution(in_channels, {channels, 1, stride}),
                                     nn::BatchNorm2d(channels)));
  }

  Tensor forward(const Tensor& input) override {
    Tensor value = input;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      if (i > 0) value = relu(value);
      value = (*norms_[i])((*convs_[i])(value));
    }
    return relu(value + (downsample_ == nullptr ? input : (*downsample_)(input)));
  }

  nn::BatchNorm2d& last_norm() { return *norms_.back(); }

 private:
  std::vector<std::shared_ptr<nn::Conv2d>> convs_;
  std::vector<std::shared_ptr<nn::BatchNorm2d>> norms_;
  std::shared_ptr<nn::Sequential> downsample_;  // null: the identity
};

std::vector<BodyConvolution> body_of(ResNet::Block block, std::int64_t width, std::int64_t stride) {
  if (block == ResNet::Block::kBasic) return {{width, 3, stride}, {width, 3}};
  return {{width, 1}, {width, 3, stride}, {4 * width, 1}};
}

// `channels` go into the stage; it becomes what comes out.
nn::Sequential make_stage(ResNet::Block block, std::int64_t& channels, std::int64_t width,
                          int blocks, std::int64_t first_stride) {
  nn::Sequential stage;
  for (int i = 0; i < blocks; ++i) {
    const std::int64_t stride = i == 0 ? first_stride : 1;
    const std::vector<BodyConvolution> body = body_of(block, width, stride);
    stage.push_back(ResidualBlock(channels, stride, body));
    channels = body.back().channels;
  }
  return stage;
}

void initialise(const ResNet& model, bool zero_init_residual) {
  for_each_layer<nn::Conv2d>(model, [](nn::Conv2d& layer) {
    nn::init::kaiming_normal_(layer.weight, 0.0, nn::init::FanMode::kFanOut,
                              nn::init::Nonlinearity::kReLU);
  });
  nn::init::layer_default_(model.fc->weight, model.fc->bias);
  if (!zero_init_residual) return;
  for_each_layer<ResidualBlock>(
      model, [](ResidualBlock& block) { nn::init::zeros_(block.last_norm().weight); });
}

}  // namespace

ResNet::ResNet(Block block, const Stages& stages, const ResNetOptions& options) {
  {
    const nn::SkipInit skip;  // initialise() below knows better
    const bool small = options.cifar_stem;
    conv1 = register_module("conv1", make_convolution(3, small ? BodyConvolution{64, 3, 1}
                                                               : BodyConvolution{64, 7, 2}));
    bn1 = register_module("bn1", nn::BatchNorm2d(64));
    maxpool = register_module<nn::Module>(
        "maxpool", small ? std::shared_ptr<nn::Module>(std::make_shared<nn::Identity>())
                         : std::make_shared<nn::MaxPool2d>(3, 2, 1));
    std::int64_t channels = 64;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i] = register_module(
          "layer" + std::to_string(i + 1),
          make_stage(block, channels, std::int64_t{64} << i, stages[i], i == 0 ? 1 : 2));
    }
    avgpool = register_module("avgpool", nn::AdaptiveAvgPool2d(1));
    fc = register_module("fc", nn::Linear(channels, options.num_classes));
  }
  if (options.init_weights) initialise(*this, options.zero_init_residual);
}

Tensor ResNet::forward(const Tensor& input) {
  Tensor value = (*maxpool)(relu((*bn1)((*conv1)(input))));
  for (const auto& stage : layers) value = (*stage)(value);
  return (*fc)((*avgpool)(value).flatten(1));
}

std::shared_ptr<ResNet> resnet18(const ResNetOptions& options) {
  return std::make_shared<ResNet>(ResNet::Block::kBasic, ResNet::Stages{2, 2, 2, 2}, options);
}

std::shared_ptr<ResNet> resnet34(const ResNetOptions& options) {
  return std::make_shared<ResNet>(ResNet::Block::kBasic, ResNet::Stages{3, 4, 6, 3}, options);
}

std::shared_ptr<ResNet> resnet50(const ResNetOptions& options) {
  return std::make_shared<ResNet>(ResNet::Block::kBottleneck, ResNet::Stages{3, 4, 6, 3}, options);
}

}  // namespace models
}  // namespace hvd
