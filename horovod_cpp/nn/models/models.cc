#include "horovod_cpp/nn/models/models.h"

#include <utility>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/init.h"

namespace hvd::models {

AlexNet::AlexNet(const AlexNetOptions& options) {
  const nn::SkipInit skip(!options.init_weights);  // else the layers' own initialisation stays
  features = register_module(
      "features",
      nn::Sequential(nn::Conv2d(3, 64, 11, 4, 2), nn::ReLU(), nn::MaxPool2d(3, 2),
                     nn::Conv2d(64, 192, 5, 1, 2), nn::ReLU(), nn::MaxPool2d(3, 2),
                     nn::Conv2d(192, 384, 3, 1, 1), nn::ReLU(), nn::Conv2d(384, 256, 3, 1, 1),
                     nn::ReLU(), nn::Conv2d(256, 256, 3, 1, 1), nn::ReLU(), nn::MaxPool2d(3, 2)));
  avgpool = register_module("avgpool", nn::AdaptiveAvgPool2d(6));
  classifier = register_module(
      "classifier",
      nn::Sequential(nn::Dropout(options.dropout), nn::Linear(std::int64_t{256} * 6 * 6, 4096),
                     nn::ReLU(), nn::Dropout(options.dropout), nn::Linear(4096, 4096), nn::ReLU(),
                     nn::Linear(4096, options.num_classes)));
}

Tensor AlexNet::forward(const Tensor& input) {
  const Tensor pooled = (*avgpool)((*features)(input));
  return (*classifier)(pooled.flatten(1));
}

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

namespace {

constexpr std::array<std::int64_t, 5> kWidths = {64, 128, 256, 512, 512};

nn::Sequential make_features(const VGG::Stages& stages, bool batch_norm) {
  nn::Sequential layers;
  std::int64_t channels = 3;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 0; i < stages[stage]; ++i) {
      layers.push_back(nn::Conv2d(channels, kWidths[stage], 3, 1, 1));
      channels = kWidths[stage];
      if (batch_norm) layers.push_back(nn::BatchNorm2d(channels));
      layers.push_back(nn::ReLU());
    }
    layers.push_back(nn::MaxPool2d(2));
  }
  return layers;
}

std::shared_ptr<nn::Module> make_classifier(const VGGOptions& options) {
  if (options.cifar_head) return std::make_shared<nn::Linear>(512, options.num_classes);
  return std::make_shared<nn::Sequential>(nn::Linear(std::int64_t{512} * 7 * 7, 4096), nn::ReLU(),
                                          nn::Dropout(options.dropout), nn::Linear(4096, 4096),
                                          nn::ReLU(), nn::Dropout(options.dropout),
                                          nn::Linear(4096, options.num_classes));
}

void initialise(const VGG& model) {
  for_each_layer<nn::Conv2d>(model, [](nn::Conv2d& layer) {
    nn::init::kaiming_normal_(layer.weight, 0.0, nn::init::FanMode::kFanOut,
                              nn::init::Nonlinearity::kReLU);
    nn::init::zeros_(layer.bias);
  });
  for_each_layer<nn::Linear>(model, [](nn::Linear& layer) {
    nn::init::normal_(layer.weight, 0.0, 0.01);
    nn::init::zeros_(layer.bias);
  });
}

}  // namespace

VGG::VGG(const Stages& stages, bool batch_norm, const VGGOptions& options) {
  const nn::SkipInit skip;  // initialise() below knows better
  features = register_module("features", make_features(stages, batch_norm));
  avgpool = register_module("avgpool", nn::AdaptiveAvgPool2d(options.cifar_head ? 1 : 7));
  classifier = register_module("classifier", make_classifier(options));
  if (options.init_weights) initialise(*this);
}

Tensor VGG::forward(const Tensor& input) {
  const Tensor pooled = (*avgpool)((*features)(input));
  return (*classifier)(pooled.flatten(1));
}

}  // namespace hvd::models
