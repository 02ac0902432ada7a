#include "horovod_cpp/tensor/kernels/convolution.h"

#include <algorithm>
#include <cstring>

#include "core/base/status.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/isa/table.h"
#include "horovod_cpp/tensor/kernels/copy.h"
#include "horovod_cpp/tensor/shapes.h"

// Convolution as GEMM: the windows of a few images become the columns of one matrix
// [ci * kh * kw, images * oh * ow] (Chellapilla, Puri, Simard 2006). Late layers have images of a
// few pixels, so several images share a GEMM until it is wide enough to be worth reading the
// weights for.
namespace hvd {
namespace kernels {
namespace {

constexpr std::int64_t kWideEnough = 256;  // columns

struct Plan {
  isa::Window window;
  std::int64_t images, out_channels;
  std::int64_t depth;   // ci * kh * kw
  std::int64_t pixels;  // oh * ow
  std::int64_t group;   // images a GEMM

  std::int64_t image_size() const { return window.channels * window.height * window.width; }
};

Plan make_plan(const Tensor& input, const Tensor& weight, const Tensor& bias,
               const ConvOptions& options) {
  shapes::require_dim(input, 4, "conv2d", "input [n, ci, h, w]");
  shapes::require_dim(weight, 4, "conv2d", "weight [co, ci, kh, kw]");
  shapes::require_same_dtype(input, weight, "conv2d");
  shapes::require_float(input, "conv2d");
  const auto fail = [&](const std::string& what) {
    throw InvalidArgumentError("conv2d: input " + to_string(input.shape()) + ", weight " +
                               to_string(weight.shape()) + ": " + what);
  };
  if (input.size(1) != weight.size(1)) fail("channels differ");
  if (options.stride < 1) fail("stride " + std::to_string(options.stride));
  if (options.padding < 0) fail("padding " + std::to_string(options.padding));
  if (bias.defined()) {
    shapes::require_same_dtype(input, bias, "conv2d");
    if (bias.shape() != Shape{weight.size(0)}) fail("bias " + to_string(bias.shape()));
  }
  const std::int64_t spare_h = input.size(2) + 2 * options.padding - weight.size(2);
  const std::int64_t spare_w = input.size(3) + 2 * options.padding - weight.size(3);
  if (spare_h < 0 || spare_w < 0 || weight.numel() == 0) fail("the kernel does not fit");
  Plan plan;
  plan.window = {input.size(1),
                 input.size(2),
                 input.size(3),
                 weight.size(2),
                 weight.size(3),
                 options.stride,
                 options.padding,
                 spare_h / options.stride + 1,
                 spare_w / options.stride + 1};
  plan.images = input.size(0);
  plan.out_channels = weight.size(0);
  plan.depth = weight.size(1) * weight.size(2) * weight.size(3);
  plan.pixels = plan.window.out_h * plan.window.out_w;
  plan.group = std::clamp<std::int64_t>((kWideEnough + plan.pixels - 1) / plan.pixels, 1,
                                        std::max<std::int64_t>(plan.images, 1));
  return plan;
}

// Calls body(first image, images) for each group.
template <typename Body>
void for_each_group(const Plan& plan, Body body) {
  for (std::int64_t first = 0; first < plan.images; first += plan.group) {
    body(first, std::min(plan.group, plan.images - first));
  }
}

// The columns of `count` images from `first` on; rows plan.pixels * count apart.
template <typename T>
void gather(const Plan& plan, const T* input, std::int64_t first, std::int64_t count, T* columns) {
  for (std::int64_t i = 0; i < count; ++i) {
    isa::table().of<T>().image_to_columns(plan.window, input + (first + i) * plan.image_size(),
                                          columns + i * plan.pixels, plan.pixels * count);
  }
}

// Between [n, co, pixels], as tensors have it, and [co, n * pixels], as the GEMM has it.
template <typename T>
void channels_first(const Plan& plan, const T* images, std::int64_t count, T* matrix) {
  for (std::int64_t c = 0; c < plan.out_channels; ++c) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(matrix + (c * count + i) * plan.pixels,
                  images + (i * plan.out_channels + c) * plan.pixels,
                  static_cast<std::size_t>(plan.pixels) * sizeof(T));
    }
  }
}

template <typename T>
void images_first(const Plan& plan, const T* matrix, std::int64_t count, const T* bias, T* images) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < plan.out_channels; ++c) {
      kernels.affine(matrix + (c * count + i) * plan.pixels, T(1), bias ? bias[c] : T(-0.0),
                     images + (i * plan.out_channels + c) * plan.pixels, plan.pixels);
    }
  }
}

template <typename T>
Tensor forward(const Plan& plan, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  Tensor result = Tensor::empty(
      {plan.images, plan.out_channels, plan.window.out_h, plan.window.out_w}, input.dtype());
  const Tensor columns = Tensor::empty({plan.depth, plan.group * plan.pixels}, input.dtype());
  const Tensor product =
      Tensor::empty({plan.out_channels, plan.group * plan.pixels}, input.dtype());
  const T* shift = bias.defined() ? bias.data<T>() : nullptr;
  for_each_group(plan, [&](std::int64_t first, std::int64_t count) {
    const std::int64_t width = plan.pixels * count;
    T* out = result.data<T>() + first * plan.out_channels * plan.pixels;
    gather(plan, input.data<T>(), first, count, columns.data<T>());
    T* matrix = count == 1 ? out : product.data<T>();
    kernels.gemm(false, false, plan.out_channels, width, plan.depth, weight.data<T>(), plan.depth,
                 columns.data<T>(), width, matrix, width, false);
    if (count > 1 || shift != nullptr) images_first(plan, matrix, count, shift, out);
  });
  return result;
}

template <typename T>
ConvGradients backward(const Plan& plan, const Tensor& grad, const Tensor& input,
                       const Tensor& weight, bool input_needed, bool weight_needed) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  const DType dtype = input.dtype();
  ConvGradients result;
  if (input_needed) result.input = Tensor::zeros(input.shape(), dtype);
  if (weight_needed) result.weight = Tensor::zeros(weight.shape(), dtype);
  const Tensor columns = Tensor::empty({plan.depth, plan.group * plan.pixels}, dtype);
  const Tensor reordered = Tensor::empty({plan.out_channels, plan.group * plan.pixels}, dtype);
  for_each_group(plan, [&](std::int64_t first, std::int64_t count) {
    const std::int64_t width = plan.pixels * count;
    const T* g = grad.data<T>() + first * plan.out_channels * plan.pixels;
    if (count > 1) {
      channels_first(plan, g, count, reordered.data<T>());
      g = reordered.data<T>();
    }
    if (weight_needed) {
      gather(plan, input.data<T>(), first, count, columns.data<T>());
      kernels.gemm(false, true, plan.out_channels, plan.depth, width, g, width, columns.data<T>(),
                   width, result.weight.data<T>(), plan.depth, true);
    }
    if (input_needed) {
      kernels.gemm(true, false, plan.depth, width, plan.out_channels, weight.data<T>(), plan.depth,
                   g, width, columns.data<T>(), width, false);
      for (std::int64_t i = 0; i < count; ++i) {
        kernels.columns_to_image(plan.window, columns.data<T>() + i * plan.pixels, width,
                                 result.input.data<T>() + (first + i) * plan.image_size());
      }
    }
  });
  return result;
}

}  // namespace

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, ConvOptions options) {
  const Plan plan = make_plan(input, weight, bias, options);
  const Tensor shift = bias.defined() ? contiguous(bias) : bias;
  return dispatch_float(input.dtype(), [&](auto tag) {
    return forward<typename decltype(tag)::type>(plan, contiguous(input), contiguous(weight),
                                                 shift);
  });
}

ConvGradients conv2d_grad(const Tensor& grad, const Tensor& input, const Tensor& weight,
                          ConvOptions options, bool input_needed, bool weight_needed) {
  const Plan plan = make_plan(input, weight, {}, options);
  return dispatch_float(input.dtype(), [&](auto tag) {
    return backward<typename decltype(tag)::type>(plan, contiguous(grad), contiguous(input),
                                                  contiguous(weight), input_needed, weight_needed);
  });
}

}  // namespace kernels
}  // namespace hvd
