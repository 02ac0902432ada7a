#include "horovod_cpp/autograd/functions/functions.h"

#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
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
  if (!autograd::should_record({&input})) return result.values;
  const Saved values = Saved::result(result.values);
  return autograd::record(
      std::move(result.values), name, {edge_to(input)},
      [values, inverse = std::move(result.inverse), name,
       edge = edge_to(input)](const Tensor& gradient) {
        const Tensor y = values.get(name);
        if (grad_enabled()) {
          return std::vector<Tensor>{recorded_gradient(edge, y, inverse, name, gradient)};
        }
        return std::vector<Tensor>{
            kernels::normalize_rows_grad(kernels::contiguous(gradient), y, inverse)};
      },
      autograd::Order::kAny);
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
  if (!is_half(input) || parameter.dtype() != DType::kF32) {
    shapes::require_same_dtype(input, parameter, name);
  }
  if (parameter.shape() == expected) return;
  throw InvalidArgumentError(std::string(name) + ": input " + to_string(input.shape()) + " and " +
                             what + " " + to_string(parameter.shape()) + ": expected " +
                             to_string(expected));
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  const auto axes = static_cast<std::ptrdiff_t>(normalized_shape.size());
  if (axes == 0 || input.dim() < axes ||
      !std::equal(normalized_shape.begin(), normalized_shape.end(), input.shape().end() - axes)) {
    throw InvalidArgumentError("layer_norm: input " + to_string(input.shape()) +
                               " does not end in normalized_shape " + to_string(normalized_shape));
  }
  check_affine(input, weight, normalized_shape, "layer_norm", "weight");
  check_affine(input, bias, normalized_shape, "layer_norm", "bias");
  if (is_half(input)) {
    return autograd::through_float32(input, [&](const Tensor& wide) {
      return layer_norm(wide, normalized_shape, widened(weight), widened(bias), eps);
    });
  }
  const std::int64_t columns = std::max<std::int64_t>(numel_of(normalized_shape), 1);
  return affine(normalized(input, input.numel() / columns, eps, "layer_norm"), weight, bias);
}

Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight,
                  const Tensor& bias, double eps) {
  if (input.dim() < 2 || num_groups < 1 || input.size(1) % num_groups != 0) {
    throw InvalidArgumentError("group_norm: input " + to_string(input.shape()) +
                               " [n, c, ...] has no channels that divide into num_groups " +
                               std::to_string(num_groups));
  }
  const std::int64_t channels = input.size(1);
  check_affine(input, weight, {channels}, "group_norm", "weight");
  check_affine(input, bias, {channels}, "group_norm", "bias");
  if (is_half(input)) {
    return autograd::through_float32(input, [&](const Tensor& wide) {
      return group_norm(wide, num_groups, widened(weight), widened(bias), eps);
    });
  }
  Shape per_channel(static_cast<std::size_t>(input.dim() - 1), 1);
  per_channel[0] = channels;
  const auto spread = [&](const Tensor& parameter) {
    return parameter.defined() ? parameter.reshape(per_channel) : parameter;
  };
  return affine(normalized(input, input.size(0) * num_groups, eps, "group_norm"), spread(weight),
                spread(bias));
}

}  // namespace hvd
