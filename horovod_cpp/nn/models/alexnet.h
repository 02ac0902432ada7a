#pragma once

#include <cstdint>
#include <memory>

#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/layers/pooling.h"

// The single-column variant of Krizhevsky: "One weird trick for parallelizing convolutional neural
// networks", 2014. Parameter names, layout and initialisation are torchvision's.
namespace hvd {
namespace models {

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

std::shared_ptr<AlexNet> alexnet(const AlexNetOptions& options = {});

}  // namespace models
}  // namespace hvd
