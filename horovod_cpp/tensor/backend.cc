#include "horovod_cpp/tensor/backend.h"

#include <array>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/loops.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::kernels {
namespace {

// As a device visits them.
template <std::size_t N>
Strided<static_cast<int>(N)> strided(const char* function, const Shape& shape,
                                     const std::array<std::vector<std::int64_t>, N>& strides) {
  constexpr auto kOperands = static_cast<int>(N);
  Strided<kOperands> result;
  const MergedAxes<N> merged = merge_axes<N>(shape, strides);
  if (merged.empty) return result;
  if (merged.extents.size() > Strided<kOperands>::kMostAxes) {
    throw UnsupportedError(std::string(function) + ": on a GPU tensors have at most " +
                           std::to_string(Strided<kOperands>::kMostAxes) +
                           " axes that lie apart in memory, this of shape " + to_string(shape) +
                           " has " + std::to_string(merged.extents.size()) +
                           ": make it contiguous()");
  }
  result.numel = 1;
  for (const std::int64_t extent : merged.extents) {
    const int axis = result.axes++;
    result.numel *= extent;
    result.extent[axis] = extent;
    for (std::size_t n = 0; n < N; ++n) {
      result.step[axis][n] = merged.steps[static_cast<std::size_t>(axis)][n];
    }
  }
  return result;
}

std::vector<std::int64_t> strides_in(const Tensor& operand, const Shape& shape,
                                     const char* function) {
  return shapes::broadcast_strides(operand.shape(), operand.strides(), shape, function);
}

namespace device {

Tensor unary(Unary op, const Tensor& a, const char* function) {
  Tensor result = Tensor::empty(a.shape(), a.dtype(), a.device());
  arithmetic_of(a).unary(op, a.dtype(),
                         strided<2>(function, a.shape(), {result.strides(), a.strides()}),
                         result.address(), a.address());
  return result;
}

Tensor binary(Binary op, const Tensor& a, const Tensor& b, const char* function) {
  static_cast<void>(arithmetic_of(b));  // throws where it may not be read in this order
  const Shape shape = shapes::broadcast(a.shape(), b.shape(), function);
  Tensor result = Tensor::empty(shape, a.dtype(), a.device());
  arithmetic_of(a).binary(op, a.dtype(),
                          strided<3>(function, shape,
                                     {result.strides(), strides_in(a, shape, function),
                                      strides_in(b, shape, function)}),
                          result.address(), a.address(), b.address());
  return result;
}

void add_into(const Tensor& target, const Tensor& source, double alpha) {
  static_cast<void>(arithmetic_of(source));
  arithmetic_of(target).add_scaled(
      target.dtype(),
      strided<2>("add_", target.shape(),
                 {target.strides(), strides_in(source, target.shape(), "add_")}),
      target.address(), source.address(), alpha);
}

void scale(const Tensor& target, double factor) {
  arithmetic_of(target).scale(target.dtype(),
                              strided<1>("mul_", target.shape(), {target.strides()}),
                              target.address(), factor);
}

void copy_into(const Tensor& target, const Tensor& source) {
  static_cast<void>(arithmetic_of(source));
  arithmetic_of(target).copy(
      strided<2>("copy", target.shape(),
                 {target.strides(), strides_in(source, target.shape(), "copy")}),
      target.dtype(), target.address(), source.dtype(), source.address());
}

void fill(const Tensor& target, double value) {
  dispatch_any(target.dtype(), [&](auto tag) {
    const auto element = convert<typename decltype(tag)::type>(value);
    arithmetic_of(target).fill(strided<1>("fill_", target.shape(), {target.strides()}),
                               sizeof element, target.address(), &element);
  });
}

Tensor sum(const Tensor& a, const std::vector<bool>& mask) {
  Shape kept_shape;
  Shape reduced_shape;
  std::vector<std::int64_t> kept_strides;
  std::vector<std::int64_t> reduced_strides;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    (mask[i] ? reduced_shape : kept_shape).push_back(a.shape()[i]);
    (mask[i] ? reduced_strides : kept_strides).push_back(a.strides()[i]);
  }
  const DType dtype = is_floating(a.dtype()) ? a.dtype() : DType::kI64;
  Tensor result = Tensor::empty(shapes::reduced(a.shape(), mask, true), dtype, a.device());
  arithmetic_of(a).sum(a.dtype(),
                       {strided<1>("sum", kept_shape, {kept_strides}),
                        strided<1>("sum", reduced_shape, {reduced_strides})},
                       result.address(), a.address());
  return result;
}

}  // namespace device

constexpr Backend kHost = {host::unary,     host::binary, host::add_into, host::scale,
                           host::copy_into, host::fill,   host::sum};
constexpr Backend kDevice = {device::unary,     device::binary, device::add_into, device::scale,
                             device::copy_into, device::fill,   device::sum};

}  // namespace

const Backend& backend_of(const Tensor& tensor) {
  return is_on_cpu(tensor) ? kHost : kDevice;
}

const Backend& backend_of(const char* function, const Tensor& a, const Tensor& b) {
  require_same_device(function, a, b);
  return backend_of(a);
}

}  // namespace hvd::kernels
