#include "horovod_cpp/autograd/functions/functions.h"

#include <algorithm>

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/kernels/images/images.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::edge_to;
using autograd::is_half;
using autograd::Saved;
using autograd::widened;

// The gradient of normalize_rows made of recorded functions; `input` leads to what `y` was computed
// from.
Tensor recorded_gradient(const autograd::Edge& input, const Tensor& y, const Tensor& inverse,
                         const char* name, const Tensor& gradient) {
  if (y.numel() == 0) return gradient;
  const Shape matrix = {inverse.numel(), y.numel() / inverse.numel()};
  const Tensor values = y.reshape(matrix);
  const Tensor g = gradient.reshape(matrix);
  // d inverse = -inverse^2 * values / columns * d input
  const Tensor scale =
      autograd::function_of(input, inverse.to(y.dtype()).reshape({matrix[0], 1}), name,
                            [values, columns = static_cast<double>(matrix[1]), shape = y.shape()](
                                const Tensor& h, const Tensor& s) {
                              return (h * s * s * values * (-1.0 / columns)).reshape(shape);
                            });
  const Tensor centred = g - mean(g, {1}, true) - values * mean(g * values, {1}, true);
  return (centred * scale).reshape(y.shape());
}

Tensor normalized(const Tensor& input, std::int64_t rows, double eps, const char* name) {
  require_cpu(name, {&input});
  shapes::require_float(input, name);
  kernels::Normalized result = kernels::normalize_rows(kernels::contiguous(input), rows, eps);
  const Saved values = Saved::result(result.values);
  return autograd::mapped(input, std::move(result.values), name,
                          [values, inverse = std::move(result.inverse), name,
                           edge = edge_to(input)](const Tensor& gradient) {
                            const Tensor y = values.get(name);
                            if (grad_enabled())
                              return recorded_gradient(edge, y, inverse, name, gradient);
                            return kernels::normalize_rows_grad(kernels::contiguous(gradient), y,
                                                                inverse);
                          });
}

// value * weight + bias, each of which may be undefined.
Tensor affine(Tensor value, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) value = mul(value, weight);
  if (bias.defined()) value = add(value, bias);
  return value;
}

void check_affine(const Tensor& input, const Tensor& parameter, const Shape& expected,
                  const char* name, const char* what) {
  if (!parameter.defined()) return;
  // Parameters and statistics of half types may be float32.
  if (!is_half(input) || parameter.dtype() != DType::kF32) {
    shapes::require_same_dtype(input, parameter, name);
  }
  if (parameter.shape() == expected) return;
  throw InvalidArgumentError(name, ": input ", input.shape(), " and ", what, " ", parameter.shape(),
                             ": expected ", expected);
}

void require_channels(const Tensor& tensor, const Tensor& input, const char* what) {
  if (!tensor.defined()) {
    throw InvalidArgumentError("batch_norm: ", what, " is undefined");
  }
  check_affine(input, tensor, {input.size(1)}, "batch_norm", what);
}

// The gradients of batch_norm made of recorded functions.
std::vector<Tensor> recorded_batch_norm_gradients(const Tensor& gradient, const Tensor& x,
                                                  const Tensor& weight,
                                                  const kernels::Moments& moments, double eps,
                                                  bool training) {
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

}  // namespace

Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  const auto axes = static_cast<std::ptrdiff_t>(normalized_shape.size());
  if (axes == 0 || input.dim() < axes ||
      !std::equal(normalized_shape.begin(), normalized_shape.end(), input.shape().end() - axes)) {
    throw InvalidArgumentError("layer_norm: input ", input.shape(),
                               " does not end in normalized_shape ", normalized_shape);
  }
  check_affine(input, weight, normalized_shape, "layer_norm", "weight");
  check_affine(input, bias, normalized_shape, "layer_norm", "bias");
  if (is_half(input)) {
    return autograd::cast(
        layer_norm(widened(input), normalized_shape, widened(weight), widened(bias), eps),
        input.dtype());
  }
  const std::int64_t columns = std::max<std::int64_t>(numel_of(normalized_shape), 1);
  return affine(normalized(input, input.numel() / columns, eps, "layer_norm"), weight, bias);
}

Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight,
                  const Tensor& bias, double eps) {
  if (input.dim() < 2 || num_groups < 1 || input.size(1) % num_groups != 0) {
    throw InvalidArgumentError("group_norm: input ", input.shape(),
                               " [n, c, ...] has no channels that divide into num_groups ",
                               num_groups);
  }
  const std::int64_t channels = input.size(1);
  check_affine(input, weight, {channels}, "group_norm", "weight");
  check_affine(input, bias, {channels}, "group_norm", "bias");
  if (is_half(input)) {
    return autograd::cast(
        group_norm(widened(input), num_groups, widened(weight), widened(bias), eps), input.dtype());
  }
  Shape per_channel(static_cast<std::size_t>(input.dim() - 1), 1);
  per_channel[0] = channels;
  const auto spread = [&](const Tensor& parameter) {
    return parameter.defined() ? parameter.reshape(per_channel) : parameter;
  };
  return affine(normalized(input, input.size(0) * num_groups, eps, "group_norm"), spread(weight),
                spread(bias));
}

Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                  Tensor& running_mean, Tensor& running_var, bool training, double momentum,
                  double eps) {
  require_cpu("batch_norm", {&input});
  shapes::require_dim(input, 4, "batch_norm", "input [n, c, h, w]");
  if (!is_half(input)) shapes::require_float(input, "batch_norm");
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
      throw InvalidArgumentError("batch_norm: input ", input.shape(),
                                 " has fewer than two values per channel to learn from");
    }
    moments = kernels::channel_moments(input);
    refuse_expanded(running_mean, "batch_norm: running_mean");
    refuse_expanded(running_var, "batch_norm: running_var");
    kernels::move_running(running_mean, running_var, moments, static_cast<double>(count), momentum);
  } else {  // copies: the running statistics may move before backward
    moments = {kernels::clone(kernels::to(running_mean, DType::kF64)),
               kernels::clone(kernels::to(running_var, DType::kF64))};
  }
  Tensor result = kernels::batch_norm(input, moments, weight, bias, eps);
  if (!autograd::should_record({&input, &weight, &bias})) return result;
  return autograd::record(
      std::move(result), "batch_norm", {edge_to(input), edge_to(weight), edge_to(bias)},
      [x = Saved(input), w = Saved(weight), moments, eps, training](const Tensor& gradient) {
        if (grad_enabled()) {
          return recorded_batch_norm_gradients(gradient, x.get("batch_norm"), w.get("batch_norm"),
                                               moments, eps, training);
        }
        auto parts = kernels::batch_norm_grad(gradient, x.get("batch_norm"), moments,
                                              w.get("batch_norm"), eps, training);
        return std::vector<Tensor>{parts.input, parts.weight, parts.bias};
      },
      autograd::Order::kAny);
}

}  // namespace hvd
