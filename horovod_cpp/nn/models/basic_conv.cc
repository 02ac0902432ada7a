#include "horovod_cpp/nn/models/basic_conv.h"

#include <array>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/basic.h"

namespace hvd {
namespace models {
namespace {

// Of RGB images of ImageNet, values in [0, 1].
constexpr std::array<double, 3> kMeans = {0.485, 0.456, 0.406};
constexpr std::array<double, 3> kDeviations = {0.229, 0.224, 0.225};

}  // namespace

BasicConv2d::BasicConv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
                         IntPair stride, ConvPadding padding) {
  conv = register_module(
      "conv", nn::Conv2d(in_channels, out_channels, kernel_size, stride, padding, false));
  bn = register_module("bn", nn::BatchNorm2d(out_channels, 0.001));
}

Tensor BasicConv2d::forward(const Tensor& input) {
  return relu((*bn)((*conv)(input)));
}

Tensor run_chain(const Chain& chain, const Tensor& input) {
  Tensor value = input;
  for (const auto& module : chain) value = (*module)(value);
  return value;
}

void initialise_truncated(const nn::Module& model, double std) {
  for_each_layer<nn::Conv2d>(
      model, [std](nn::Conv2d& layer) { nn::init::trunc_normal_(layer.weight, 0.0, std); });
  for_each_layer<nn::Linear>(model, [std](nn::Linear& layer) {
    nn::init::layer_default_(layer.weight, layer.bias);
    nn::init::trunc_normal_(layer.weight, 0.0, std);
  });
}

Tensor to_tensorflow_range(const Tensor& images) {
  if (images.dim() != 4 || images.size(1) != 3) {
    throw InvalidArgumentError("transform_input: images " + to_string(images.shape()) +
                               ": expected [n, 3, h, w]");
  }
  std::vector<double> scales, shifts;
  for (std::size_t i = 0; i < 3; ++i) {
    scales.push_back(kDeviations[i] / 0.5);
    shifts.push_back((kMeans[i] - 0.5) / 0.5);
  }
  const Shape channels = {1, 3, 1, 1};
  return images * Tensor::from(scales, channels).to(images.dtype()) +
         Tensor::from(shifts, channels).to(images.dtype());
}

}  // namespace models
}  // namespace hvd
