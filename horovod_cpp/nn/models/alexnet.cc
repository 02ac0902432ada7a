#include "horovod_cpp/nn/models/alexnet.h"

#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/activation.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/convolution.h"

namespace hvd {
namespace models {

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

std::shared_ptr<AlexNet> alexnet(const AlexNetOptions& options) {
  return std::make_shared<AlexNet>(options);
}

}  // namespace models
}  // namespace hvd
