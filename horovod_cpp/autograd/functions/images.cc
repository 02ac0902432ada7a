#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/functions/window.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/images/images.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::edge_to;
using autograd::Saved;
using autograd::should_record;

void require_channels(const Tensor& tensor, const Tensor& input, const char* what) {
  if (!tensor.defined()) {
    throw InvalidArgumentError(std::string("batch_norm: ") + what + " is undefined");
  }
  // Parameters and statistics of half images may be float32.
  if (!autograd::is_half(input) || tensor.dtype() != DType::kF32) {
    shapes::require_same_dtype(input, tensor, "batch_norm");
  }
  if (tensor.shape() != Shape{input.size(1)}) {
    throw InvalidArgumentError("batch_norm: input " + to_string(input.shape()) + ", " + what + " " +
                               to_string(tensor.shape()));
  }
}

// The gradients of batch_norm made of recorded functions.
std::vector<Tensor> recorded_gradients(const Tensor& gradient, const Tensor& x,
                                       const Tensor& weight, const kernels::Moments& moments,
                                       double eps, bool training) {
  const std::vector<std::int64_t> axes = {0, 2, 3};
  const Shape channels = {1, x.size(1), 1, 1};
  const auto constant = [&](const Tensor& moment) {
    return moment.to(x.dtype()).reshape(channels);
  };
  const Tensor centred = x - (training ? mean(x, axes, true) : constant(moments.mean));
  const Tensor variance =
      training ? mean(centred * centred, axes, true) : constant(moments.variance);
  const Tensor inverse = rsqrt(variance + eps);
  const Tensor y = centred * inverse;
  Tensor g = gradient * weight.reshape(channels);
  if (training) g = g - mean(g, axes, true) - y * mean(g * y, axes, true);
  return {g * inverse, sum(gradient * y, axes), sum(gradient, axes)};
}

// running = (1 - momentum) * running + momentum * now
void move_towards(Tensor& running, const Tensor& now, double momentum) {
  kernels::scale(running, 1.0 - momentum);
  kernels::add_into(running, kernels::to(now, running.dtype()), momentum);
}

}  // namespace

Tensor max_pool2d(const Tensor& input, int kernel, int stride) {
  require_cpu("max_pool2d", {&input});
  auto [values, index] = kernels::max_pool2d(input, kernel, stride == 0 ? kernel : stride);
  if (!should_record({&input})) return values;
  return autograd::record(
      std::move(values), "max_pool2d", {edge_to(input)},
      [index = std::move(index), shape = input.shape()](const Tensor& gradient) {
        if (grad_enabled()) {
          return std::vector<Tensor>{autograd::recorded_max_pool_grad(gradient, index, shape)};
        }
        return std::vector<Tensor>{kernels::max_pool2d_grad(gradient, index, shape)};
      },
      autograd::Order::kAny);
}

Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                  Tensor& running_mean, Tensor& running_var, bool training, double momentum,
                  double eps) {
  require_cpu("batch_norm", {&input});
  shapes::require_dim(input, 4, "batch_norm", "input [n, c, h, w]");
  if (!autograd::is_half(input)) shapes::require_float(input, "batch_norm");
  require_channels(weight, input, "weight");
  require_channels(bias, input, "bias");
  require_channels(running_mean, input, "running_mean");
  require_channels(running_var, input, "running_var");
  autograd::require_constant(running_mean, "batch_norm", "running_mean");
  autograd::require_constant(running_var, "batch_norm", "running_var");
  kernels::Moments moments;
  if (training) {
    const std::int64_t count = input.numel() / std::max<std::int64_t>(input.size(1), 1);
    if (count < 2) {
      throw InvalidArgumentError("batch_norm: input " + to_string(input.shape()) +
                                 " has fewer than two values a channel to learn from");
    }
    moments = kernels::channel_moments(input);
    refuse_expanded(running_mean, "batch_norm: running_mean");
    refuse_expanded(running_var, "batch_norm: running_var");
    move_towards(running_mean, moments.mean, momentum);
    Tensor unbiased = kernels::clone(moments.variance);
    kernels::scale(unbiased, static_cast<double>(count) / static_cast<double>(count - 1));
    move_towards(running_var, unbiased, momentum);
  } else {  // copies: the running statistics may move before backward
    moments = {kernels::clone(kernels::to(running_mean, DType::kF64)),
               kernels::clone(kernels::to(running_var, DType::kF64))};
  }
  Tensor result = kernels::batch_norm(input, moments, weight, bias, eps);
  if (!should_record({&input, &weight, &bias})) return result;
  return autograd::record(
      std::move(result), "batch_norm", {edge_to(input), edge_to(weight), edge_to(bias)},
      [x = Saved(input), w = Saved(weight), moments, eps, training](const Tensor& gradient) {
        if (grad_enabled()) {
          return recorded_gradients(gradient, x.get("batch_norm"), w.get("batch_norm"), moments,
                                    eps, training);
        }
        auto parts = kernels::batch_norm_grad(gradient, x.get("batch_norm"), moments,
                                              w.get("batch_norm"), eps, training);
        return std::vector<Tensor>{parts.input, parts.weight, parts.bias};
      },
      autograd::Order::kAny);
}

}  // namespace hvd
