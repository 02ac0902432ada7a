#include "horovod_cpp/nn/models/vgg.h"

#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/activation.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/batch_norm.h"
#include "horovod_cpp/nn/layers/convolution.h"
#include "horovod_cpp/nn/models/basic_conv.h"

namespace hvd {
namespace models {
namespace {

constexpr VGG::Stages kVGG11 = {1, 1, 2, 2, 2};
constexpr VGG::Stages kVGG13 = {2, 2, 2, 2, 2};
constexpr VGG::Stages kVGG16 = {2, 2, 3, 3, 3};
constexpr VGG::Stages kVGG19 = {2, 2, 4, 4, 4};
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

std::shared_ptr<VGG> vgg11(const VGGOptions& options) {
  return std::make_shared<VGG>(kVGG11, false, options);
}

std::shared_ptr<VGG> vgg11_bn(const VGGOptions& options) {
  return std::make_shared<VGG>(kVGG11, true, options);
}

std::shared_ptr<VGG> vgg13(const VGGOptions& options) {
  return std::make_shared<VGG>(kVGG13, false, options);
}

std::shared_ptr<VGG> vgg13_bn(const VGGOptions& options) {
  return std::make_shared<VGG>(kVGG13, true, options);
}

std::shared_ptr<VGG> vgg16(const VGGOptions& options) {
  return std::make_shared<VGG>(kVGG16, false, options);
}

std::shared_ptr<VGG> vgg16_bn(const VGGOptions& options) {
  return std::make_shared<VGG>(kVGG16, true, options);
}

std::shared_ptr<VGG> vgg19(const VGGOptions& options) {
  return std::make_shared<VGG>(kVGG19, false, options);
}

std::shared_ptr<VGG> vgg19_bn(const VGGOptions& options) {
  return std::make_shared<VGG>(kVGG19, true, options);
}

}  // namespace models
}  // namespace hvd
