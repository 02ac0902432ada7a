// Convolutions, and pooling over windows of images.
#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/kernels/convolution/convolution.h"
#include "horovod_cpp/tensor/kernels/images/images.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::lowered;
using kernels::ConvShape;

// The arguments of a call, for what is computed from them and for errors.
struct Call {
  const char* function;
  std::int64_t spatial;
  Tensor input;
  Tensor weight;
  Tensor bias;
  IntPair stride;
  IntPair dilation;
  std::int64_t groups;

  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidArgumentError(function, ": input ", input.shape(), ", weight ", weight.shape(),
                               ": ", what);
  }
};

std::array<std::int64_t, 2> both(IntPair pair) {
  return {pair.height, pair.width};
}

void require_within(const Call& call, const std::string& what, IntPair pair, std::int64_t least) {
  for (const std::int64_t value : both(pair)) {
    if (value < least || value > kMostExtent) call.fail(str_cat(what, " ", value));
  }
}

void check(const Call& call, std::int64_t bias_size) {
  const bool two = call.spatial == 2;
  shapes::require_dim(call.input, call.spatial + 2, call.function,
                      two ? "input [n, c, h, w]" : "input [n, c, l]");
  shapes::require_dim(call.weight, call.spatial + 2, call.function,
                      two ? "weight [.., .., kh, kw]" : "weight [co, ci / groups, k]");
  shapes::require_same_dtype(call.input, call.weight, call.function);
  if (!autograd::is_half(call.input)) shapes::require_float(call.input, call.function);
  if (call.weight.numel() == 0) call.fail("the weight is empty");
  require_within(call, "stride", call.stride, 1);
  require_within(call, "dilation", call.dilation, 1);
  for (const Tensor& given : {call.input, call.weight}) {
    require_within(call, "extents", {given.dim() == 4 ? given.size(2) : 1, given.size(-1)}, 0);
  }
  if (!call.bias.defined()) return;
  shapes::require_same_dtype(call.input, call.bias, call.function);
  if (call.bias.shape() != Shape{bias_size}) call.fail(str_cat("bias ", call.bias.shape()));
}

std::array<std::int64_t, 2> extents(const Tensor& images) {
  return {images.dim() == 4 ? images.size(2) : 1, images.size(-1)};
}

ConvShape common_shape(const Call& call) {
  ConvShape shape{};
  shape.images = call.input.size(0);
  shape.groups = call.groups;
  shape.kernel = extents(call.weight);
  shape.stride = both(call.stride);
  shape.dilation = both(call.dilation);
  shape.spatial = call.spatial;
  return shape;
}

std::int64_t reach(const ConvShape& shape, std::size_t axis) {
  return shape.dilation[axis] * (shape.kernel[axis] - 1) + 1;
}

ConvShape conv_shape(const Call& call, const ConvPadding& padding) {
  require_within(call, "groups", call.groups, 1);
  check(call, call.weight.dim() > 0 ? call.weight.size(0) : 0);
  require_within(call, "padding", padding.size, 0);
  ConvShape shape = common_shape(call);
  shape.in_channels = call.input.size(1);
  shape.out_channels = call.weight.size(0);
  shape.in = extents(call.input);
  if (shape.in_channels != call.weight.size(1) * call.groups) call.fail("channels differ");
  if (shape.out_channels % call.groups != 0) {
    call.fail(str_cat("no multiple of ", call.groups, " groups"));
  }
  for (std::size_t axis = call.spatial == 2 ? 0 : 1; axis < 2; ++axis) {
    std::int64_t total = 2 * both(padding.size)[axis];
    if (padding.same) {
      if (shape.stride[axis] != 1) call.fail("padding 'same' needs a stride of 1");
      total = reach(shape, axis) - 1;
    }
    shape.padding[axis] = total / 2;
    const std::int64_t spare = shape.in[axis] + total - reach(shape, axis);
    if (spare < 0) call.fail("the kernel does not fit");
    shape.out[axis] = spare / shape.stride[axis] + 1;
  }
  if (call.spatial == 1) shape.out[0] = 1;
  return shape;
}

ConvShape transposed_shape(const Call& call, IntPair padding, IntPair output_padding) {
  require_within(call, "groups", call.groups, 1);
  check(call, call.weight.dim() > 1 ? call.weight.size(1) * call.groups : 0);
  require_within(call, "padding", padding, 0);
  ConvShape shape = common_shape(call);
  shape.out_channels = call.input.size(1);
  shape.in_channels = call.weight.size(1) * call.groups;
  shape.out = extents(call.input);
  shape.padding = both(padding);
  if (shape.out_channels != call.weight.size(0)) call.fail("channels differ");
  if (shape.out_channels % call.groups != 0) {
    call.fail(str_cat("no multiple of ", call.groups, " groups"));
  }
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t extra = both(output_padding)[axis];
    if (extra < 0 || extra >= std::max(shape.stride[axis], shape.dilation[axis])) {
      call.fail(
          str_cat("output_padding ", extra, ": expected less than the stride or the dilation"));
    }
    shape.in[axis] = (shape.out[axis] - 1) * shape.stride[axis] - 2 * shape.padding[axis] +
                     reach(shape, axis) + extra;
    if (shape.out[axis] < 1 || shape.in[axis] < 1) call.fail("nothing is left of the images");
  }
  return shape;
}

// Over all axes but the channels.
Tensor bias_gradient(const Tensor& gradient) {
  std::vector<std::int64_t> axes = {0, 2};
  if (gradient.dim() == 4) axes.push_back(3);
  return sum(gradient, axes);
}

// kernels::convolve or its transpose, each of which is the gradient of the other to the images.
using Direction = Tensor (*)(const ConvShape& shape, const Tensor& images, const Tensor& weight,
                             const Tensor& bias);

Tensor applied(const ConvShape& shape, const char* name, Direction direction, const Tensor& images,
               const Tensor& weight, const Tensor& bias);

// The gradient of the weight as a function of the images of both sides, written to `place` if that
// serves; its gradients are convolutions with that of the weight.
Tensor weight_gradient(const ConvShape& shape, const char* name, const Tensor& in,
                       const Tensor& out, const Tensor& place) {
  return autograd::recorded(
      kernels::convolve_weight_grad(shape, in, out, place), name, {&in, &out},
      [=, saved = autograd::saved_for(in, out)](const Tensor& gradient) {
        return applied(shape, name, kernels::convolve_transposed, saved.get(name), gradient, {});
      },
      [=, saved = autograd::saved_for(out, in)](const Tensor& gradient) {
        return applied(shape, name, kernels::convolve, saved.get(name), gradient, {});
      });
}

Tensor applied(const ConvShape& shape, const char* name, Direction direction, const Tensor& images,
               const Tensor& weight, const Tensor& bias) {
  const bool forward = direction == kernels::convolve;
  const Direction back = forward ? kernels::convolve_transposed : kernels::convolve;
  return autograd::recorded(
      direction(shape, images, weight, bias), name, {&images, &weight, &bias},
      [=, saved = autograd::saved_for(images, weight)](const Tensor& gradient) {
        return applied(shape, name, back, gradient, saved.get(name), {});
      },
      [=, saved = autograd::saved_for(weight, images)](const Tensor& gradient) {
        const Tensor given = saved.get(name);
        const Tensor place = autograd::gradient_place(1);
        return forward ? weight_gradient(shape, name, given, gradient, place)
                       : weight_gradient(shape, name, gradient, given, place);
      },
      bias_gradient);
}

Tensor applied(const Call& call, const ConvShape& shape, Direction direction) {
  require_cpu(call.function, {&call.input, &call.weight, &call.bias});
  return applied(shape, call.function, direction, call.input, call.weight, call.bias);
}

}  // namespace

ConvPadding::ConvPadding(std::string_view word) : same(word == "same") {
  if (same || word == "valid") return;
  throw InvalidArgumentError("padding '", word, "': expected 'same', 'valid' or numbers");
}

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, IntPair stride,
              ConvPadding padding, IntPair dilation, std::int64_t groups) {
  const Call call = {"conv2d",      2,      lowered(input), lowered(weight),
                     lowered(bias), stride, dilation,       groups};
  return applied(call, conv_shape(call, padding), kernels::convolve);
}

Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, std::int64_t stride,
              ConvPadding padding, std::int64_t dilation, std::int64_t groups) {
  const Call call = {"conv1d",      1,           lowered(input), lowered(weight),
                     lowered(bias), {1, stride}, {1, dilation},  groups};
  return applied(call, conv_shape(call, padding), kernels::convolve);
}

Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        IntPair stride, IntPair padding, IntPair output_padding,
                        std::int64_t groups, IntPair dilation) {
  const Call call = {"conv_transpose2d", 2,      lowered(input), lowered(weight),
                     lowered(bias),      stride, dilation,       groups};
  return applied(call, transposed_shape(call, padding, output_padding),
                 kernels::convolve_transposed);
}

namespace {

using kernels::Span;
using kernels::Spans;

std::string text_of(const IntPair& size) {
  return "[" + std::to_string(size.height) + ", " + std::to_string(size.width) + "]";
}

void check_input(const Tensor& input, const char* function) {
  require_cpu(function, {&input});
  shapes::require_dim(input, 4, function, "input [n, c, h, w]");
  if (!autograd::is_half(input)) shapes::require_float(input, function);
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
    throw InvalidArgumentError(function, ": input ", input.shape(), ", kernel_size ",
                               text_of(options.kernel_size), ", stride ", text_of(stride),
                               ", padding ", text_of(options.padding),
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

}  // namespace

Tensor max_pool2d(const Tensor& input, int kernel, int stride) {
  return max_pool2d(input, {.kernel_size = kernel, .stride = stride});
}

Tensor max_pool2d(const Tensor& input, const Pool2dOptions& options) {
  const Windows windows = sliding_windows(input, options, "max_pool2d");
  kernels::Pooled largest = kernels::max_pool2d(input, windows.rows, windows.columns);
  return autograd::mapped(
      input, std::move(largest.values), "max_pool2d",
      [index = std::move(largest.index), shape = input.shape()](const Tensor& gradient) {
        return (grad_enabled() ? recorded_max_pool_grad : kernels::max_pool2d_grad)(gradient, index,
                                                                                    shape);
      });
}

Tensor avg_pool2d(const Tensor& input, const Pool2dOptions& options) {
  if (autograd::is_half(input)) {
    return autograd::cast(avg_pool2d(autograd::widened(input), options), input.dtype());
  }
  return mean_over(input, sliding_windows(input, options, "avg_pool2d"), "avg_pool2d");
}

Tensor adaptive_avg_pool2d(const Tensor& input, IntPair output_size) {
  if (autograd::is_half(input)) {
    return autograd::cast(adaptive_avg_pool2d(autograd::widened(input), output_size),
                          input.dtype());
  }
  check_input(input, "adaptive_avg_pool2d");
  if (output_size.height == kInputExtent) output_size.height = input.size(2);
  if (output_size.width == kInputExtent) output_size.width = input.size(3);
  if (!output_size.is_within(1) || !IntPair(input.size(2), input.size(3)).is_within(1)) {
    throw InvalidArgumentError("adaptive_avg_pool2d: input ", input.shape(), ", output_size ",
                               text_of(output_size), ": both need extents from 1 to 2^31 - 1");
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
