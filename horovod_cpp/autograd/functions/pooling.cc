#include "horovod_cpp/autograd/functions/functions.h"

#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/kernels/images/images.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using kernels::Span;
using kernels::Spans;

std::string text_of(const IntPair& size) {
  return "[" + std::to_string(size.height) + ", " + std::to_string(size.width) + "]";
}

void check_input(const Tensor& input, const char* function) {
  require_cpu(function, {&input});
  shapes::require_dim(input, 4, function, "input [n, c, h, w]");
  shapes::require_float(input, function);
}

// The windows along one axis; none if the options fit no window into it.
Spans sliding_spans(std::int64_t input, std::int64_t kernel, std::int64_t stride,
                    std::int64_t padding, const Pool2dOptions& options) {
  Spans spans;
  if (input == 0 || 2 * padding > kernel) return spans;
  const std::int64_t room = input + 2 * padding - kernel + (options.ceil_mode ? stride - 1 : 0);
  if (room < 0) return spans;
  for (std::int64_t i = 0; i <= room / stride; ++i) {
    const std::int64_t begin = i * stride - padding;
    if (begin >= input) break;  // ceil_mode only
    const std::int64_t end = std::min(begin + kernel, input + padding);
    const Span inside = {std::max<std::int64_t>(begin, 0), std::min(end, input), 0};
    spans.push_back(inside);
    spans.back().extent = options.count_include_pad ? end - begin : inside.end - inside.begin;
  }
  return spans;
}

struct Windows {
  Spans rows, columns;
};

Windows sliding_windows(const Tensor& input, const Pool2dOptions& options, const char* function) {
  check_input(input, function);
  const IntPair stride = options.stride == IntPair(0) ? options.kernel_size : options.stride;
  Windows windows;
  if (options.kernel_size.is_within(1) && stride.is_within(1) && options.padding.is_within(0) &&
      IntPair(input.size(2), input.size(3)).is_within(0)) {
    windows = {sliding_spans(input.size(2), options.kernel_size.height, stride.height,
                             options.padding.height, options),
               sliding_spans(input.size(3), options.kernel_size.width, stride.width,
                             options.padding.width, options)};
  }
  if (windows.rows.empty() || windows.columns.empty()) {
    throw InvalidArgumentError(std::string(function) + ": input " + to_string(input.shape()) +
                               ", kernel_size " + text_of(options.kernel_size) + ", stride " +
                               text_of(stride) + ", padding " + text_of(options.padding) +
                               ": no window fits, or padding is over half of the kernel, or "
                               "one of them is above 2^31 - 1");
  }
  return windows;
}

Spans adaptive_spans(std::int64_t input, std::int64_t count) {
  Spans spans;
  spans.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = i * input / count;
    const std::int64_t end = ((i + 1) * input + count - 1) / count;
    spans.push_back({begin, end, end - begin});
  }
  return spans;
}

Tensor mean_over(const Tensor& input, const Windows& windows, const char* name);

// The gradient of mean_over, which is linear: its own gradient are means again.
Tensor spread_over(const Tensor& gradient, const Windows& windows, const char* name,
                   const Shape& shape) {
  return autograd::mapped(
      gradient, kernels::window_mean_grad(gradient, windows.rows, windows.columns, shape), name,
      [=](const Tensor& second) { return mean_over(second, windows, name); });
}

Tensor mean_over(const Tensor& input, const Windows& windows, const char* name) {
  return autograd::mapped(input, kernels::window_mean(input, windows.rows, windows.columns), name,
                          [=, shape = input.shape()](const Tensor& gradient) {
                            return spread_over(gradient, windows, name, shape);
                          });
}

// The gradient of a maximum over windows made of recorded functions: `gradient` [n, c, oh, ow] goes
// to the places `index` (integers of that shape, each within a plane of h * w) of zeros of `shape`.
Tensor recorded_max_pool_grad(const Tensor& gradient, const Tensor& index, const Shape& shape) {
  const std::int64_t planes = shape[0] * shape[1];
  const Shape places = {planes, index.size(2) * index.size(3)};
  const Tensor zeros = Tensor::zeros({planes, shape[2] * shape[3]}, gradient.dtype());
  return scatter_add(zeros, 1, index.to(DType::kI64).reshape(places), gradient.reshape(places))
      .reshape(shape);
}

// `values`, which came from the places `index` of the input, as a function of it.
Tensor max_of_windows(const Tensor& input, Tensor values, Tensor index,
                      Tensor (*backward)(const Tensor&, const Tensor&, const Shape&)) {
  return autograd::mapped(
      input, std::move(values), "max_pool2d",
      [index = std::move(index), shape = input.shape(), backward](const Tensor& gradient) {
        return (grad_enabled() ? recorded_max_pool_grad : backward)(gradient, index, shape);
      });
}

}  // namespace

Tensor max_pool2d(const Tensor& input, int kernel, int stride) {
  require_cpu("max_pool2d", {&input});
  auto [values, index] = kernels::max_pool2d(input, kernel, stride == 0 ? kernel : stride);
  return max_of_windows(input, std::move(values), std::move(index), kernels::max_pool2d_grad);
}

Tensor max_pool2d(const Tensor& input, const Pool2dOptions& options) {
  if (autograd::is_half(input)) {
    return autograd::through_float32(input,
                                     [&](const Tensor& wide) { return max_pool2d(wide, options); });
  }
  const Windows windows = sliding_windows(input, options, "max_pool2d");
  kernels::Largest largest = kernels::window_max(input, windows.rows, windows.columns);
  return max_of_windows(input, std::move(largest.values), std::move(largest.index),
                        kernels::window_max_grad);
}

Tensor avg_pool2d(const Tensor& input, const Pool2dOptions& options) {
  if (autograd::is_half(input)) {
    return autograd::through_float32(input,
                                     [&](const Tensor& wide) { return avg_pool2d(wide, options); });
  }
  return mean_over(input, sliding_windows(input, options, "avg_pool2d"), "avg_pool2d");
}

Tensor adaptive_avg_pool2d(const Tensor& input, IntPair output_size) {
  if (autograd::is_half(input)) {
    return autograd::through_float32(
        input, [&](const Tensor& wide) { return adaptive_avg_pool2d(wide, output_size); });
  }
  check_input(input, "adaptive_avg_pool2d");
  if (output_size.height == kInputExtent) output_size.height = input.size(2);
  if (output_size.width == kInputExtent) output_size.width = input.size(3);
  if (!output_size.is_within(1) || !IntPair(input.size(2), input.size(3)).is_within(1)) {
    throw InvalidArgumentError("adaptive_avg_pool2d: input " + to_string(input.shape()) +
                               ", output_size " + text_of(output_size) +
                               ": both need extents from 1 to 2^31 - 1");
  }
  // Before lists as long as its sides: throws if there is no memory for the result.
  Tensor::empty({input.size(0), input.size(1), output_size.height, output_size.width},
                input.dtype());
  return mean_over(input,
                   {adaptive_spans(input.size(2), output_size.height),
                    adaptive_spans(input.size(3), output_size.width)},
                   "adaptive_avg_pool2d");
}

}  // namespace hvd
