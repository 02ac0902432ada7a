#include "horovod_cpp/autograd/functions/convolution.h"

#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/kernels/convolution/convolution.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::edge_to;
using autograd::lowered;
using autograd::requires_grad;
using autograd::Saved;
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
    throw InvalidArgumentError(std::string(function) + ": input " + to_string(input.shape()) +
                               ", weight " + to_string(weight.shape()) + ": " + what);
  }
};

std::array<std::int64_t, 2> both(IntPair pair) {
  return {pair.height, pair.width};
}

void require_within(const Call& call, const std::string& what, IntPair pair, std::int64_t least) {
  for (const std::int64_t value : both(pair)) {
    if (value < least || value > kMostExtent) call.fail(what + " " + std::to_string(value));
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
  if (call.bias.shape() != Shape{bias_size}) call.fail("bias " + to_string(call.bias.shape()));
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
    call.fail("no multiple of " + std::to_string(call.groups) + " groups");
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
    call.fail("no multiple of " + std::to_string(call.groups) + " groups");
  }
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t extra = both(output_padding)[axis];
    if (extra < 0 || extra >= std::max(shape.stride[axis], shape.dilation[axis])) {
      call.fail("output_padding " + std::to_string(extra) +
                ": expected less than the stride or the dilation");
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
  Tensor result = kernels::convolve_weight_grad(shape, in, out, place);
  if (!autograd::should_record({&in, &out})) return result;
  const Saved saved_in = autograd::saved_for(out, in);
  const Saved saved_out = autograd::saved_for(in, out);
  return autograd::record(
      std::move(result), name, {edge_to(in), edge_to(out)},
      [=, in_wanted = requires_grad(in), out_wanted = requires_grad(out)](const Tensor& gradient) {
        std::vector<Tensor> gradients(2);
        if (in_wanted) {
          gradients[0] =
              applied(shape, name, kernels::convolve_transposed, saved_out.get(name), gradient, {});
        }
        if (out_wanted) {
          gradients[1] = applied(shape, name, kernels::convolve, saved_in.get(name), gradient, {});
        }
        return gradients;
      },
      autograd::Order::kAny);
}

Tensor applied(const ConvShape& shape, const char* name, Direction direction, const Tensor& images,
               const Tensor& weight, const Tensor& bias) {
  Tensor result = direction(shape, images, weight, bias);
  if (!autograd::should_record({&images, &weight, &bias})) return result;
  const Saved x = autograd::saved_for(weight, images);
  const Saved w = autograd::saved_for(images, weight);
  const bool forward = direction == kernels::convolve;
  const Direction back = forward ? kernels::convolve_transposed : kernels::convolve;
  return autograd::record(
      std::move(result), name, {edge_to(images), edge_to(weight), edge_to(bias)},
      [=, images_wanted = requires_grad(images), weight_wanted = requires_grad(weight),
       bias_wanted = requires_grad(bias)](const Tensor& gradient) {
        std::vector<Tensor> gradients(3);
        if (images_wanted) gradients[0] = applied(shape, name, back, gradient, w.get(name), {});
        if (weight_wanted) {
          const Tensor given = x.get(name);
          const Tensor place = autograd::gradient_place(1);
          gradients[1] = forward ? weight_gradient(shape, name, given, gradient, place)
                                 : weight_gradient(shape, name, gradient, given, place);
        }
        if (bias_wanted) gradients[2] = bias_gradient(gradient);
        return gradients;
      },
      autograd::Order::kAny);
}

Tensor applied(const Call& call, const ConvShape& shape, Direction direction) {
  require_cpu(call.function, {&call.input, &call.weight, &call.bias});
  return applied(shape, call.function, direction, call.input, call.weight, call.bias);
}

}  // namespace

ConvPadding::ConvPadding(std::string_view word) : same(word == "same") {
  if (same || word == "valid") return;
  throw InvalidArgumentError("padding '" + std::string(word) +
                             "': expected 'same', 'valid' or numbers");
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

}  // namespace hvd
