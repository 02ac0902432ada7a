#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "horovod_cpp/nn/layers/batch_norm.h"
#include "horovod_cpp/nn/layers/convolution.h"
#include "horovod_cpp/nn/module.h"

// What GoogLeNet and Inception v3 are made of.
namespace hvd {
namespace models {

// relu(bn(conv(x))): a convolution without bias and a BatchNorm with an eps of 0.001.
class BasicConv2d : public nn::Module {
 public:
  BasicConv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
              IntPair stride = 1, ConvPadding padding = 0);
  Tensor forward(const Tensor& input) override;

  std::shared_ptr<nn::Conv2d> conv;
  std::shared_ptr<nn::BatchNorm2d> bn;
};

// Modules one after the other, whatever their names are and whoever holds them.
using Chain = std::vector<std::shared_ptr<nn::Module>>;
Tensor run_chain(const Chain& chain, const Tensor& input);

// Weights of all convolutions and linear layers: a normal distribution of deviation `std` without
// what lies outside [-2, 2]. Biases start as PyTorch's.
void initialise_truncated(const nn::Module& model, double std);

// From images normalised with ImageNet's means and deviations, channel by channel, to images
// normalised with 0.5 and 0.5: what weights that came from TensorFlow expect.
Tensor to_tensorflow_range(const Tensor& images);

// Calls `function` on every `Layer` below `model`, in the order of registration.
template <std::derived_from<nn::Module> Layer, std::invocable<Layer&> Function>
void for_each_layer(const nn::Module& model, const Function& function) {
  for (const auto& entry : model.named_descendants()) {
    if (auto* layer = dynamic_cast<Layer*>(entry.second.get())) function(*layer);
  }
}

}  // namespace models
}  // namespace hvd
