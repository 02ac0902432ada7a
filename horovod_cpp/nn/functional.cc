#include "horovod_cpp/nn/functional.h"

#include "core/base/status.h"
#include "horovod_cpp/autograd/recording.h"

namespace hvd::nn::functional {

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum,
                  double eps) {
  if (input.dim() < 2) {
    throw InvalidArgumentError("batch_norm: input ", input.shape(), ": expected [n, c, ...]");
  }
  const bool tracks = running_mean.defined() && running_var.defined();
  if (!tracks && !training) {
    throw InvalidArgumentError("batch_norm: evaluation needs running statistics");
  }
  const Shape channels = {input.size(1)};
  const auto or_full = [&](const Tensor& given, double value) {
    if (given.defined()) return given;
    return Tensor::full(channels, value, autograd::is_half(input) ? DType::kF32 : input.dtype());
  };
  Tensor mean = tracks ? running_mean : or_full({}, 0);
  Tensor variance = tracks ? running_var : or_full({}, 1);
  const Tensor scale = or_full(weight, 1);
  const Tensor shift = or_full(bias, 0);
  const auto normalized = [&](const Tensor& images) {
    return hvd::batch_norm(images, scale, shift, mean, variance, training, momentum, eps);
  };
  if (input.dim() == 4) return normalized(input);
  if (input.dim() > 2) {
    std::int64_t pixels = 1;
    for (std::int64_t axis = 2; axis < input.dim(); ++axis) pixels *= input.size(axis);
    const Tensor images = input.reshape({input.size(0), input.size(1), pixels, 1});
    return normalized(images).reshape(input.shape());
  }
  // One image whose pixels are the batch: the kernels run along pixels.
  const std::int64_t batch = input.size(0);
  const Tensor image = input.t().reshape({1, input.size(1), batch, 1});
  return normalized(image).reshape({input.size(1), batch}).t().contiguous();
}

}  // namespace hvd::nn::functional
