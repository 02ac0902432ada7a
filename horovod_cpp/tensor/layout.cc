#include "horovod_cpp/tensor/layout.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/base/status.h"
#include "horovod_cpp/tensor/backend.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/loops.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace kernels {

Tensor rows_of(const Tensor& images) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(images.dim()), 0);
  std::iota(axes.begin() + 1, axes.end(), 2);
  axes.back() = 1;
  return permute(images, axes);
}

Tensor images_of(const Tensor& rows) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rows.dim()), 0);
  std::iota(axes.begin() + 1, axes.end(), 0);
  axes[1] = rows.dim() - 1;
  return permute(rows, axes);
}

bool is_channels_last(const Tensor& a) {
  return !a.is_contiguous() && a.dim() > 2 && rows_of(a).is_contiguous();
}

Tensor empty_channels_last(const Shape& shape, DType dtype) {
  Shape dense = shape;
  dense.erase(dense.begin() + 1);
  dense.push_back(shape[1]);
  return images_of(Tensor::empty(std::move(dense), dtype));
}

Tensor channels_last(const Tensor& a) {
  if (rows_of(a).is_contiguous()) return a;
  Tensor result = empty_channels_last(a.shape(), a.dtype());
  if (!a.is_contiguous() || (a.dtype() != DType::kF32 && a.dtype() != DType::kF64)) {
    copy_into(result, a);
    return result;
  }
  const std::int64_t channels = a.size(1);
  const std::int64_t image = a.size(0) == 0 ? 0 : a.numel() / a.size(0);
  if (image == 0) return result;
  const std::int64_t pixels = image / channels;
  const std::vector<std::int64_t> planes = row_offsets(channels, pixels);
  const std::vector<std::int64_t> rows = row_offsets(pixels, channels);
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < a.size(0); ++i) {
      isa::table().of<T>().transpose(channels, pixels, a.data<T>() + i * image, planes.data(),
                                     result.data<T>() + i * image, rows.data());
    }
  });
  return result;
}

}  // namespace kernels

bool is_expanded(const Tensor& tensor) {
  if (tensor.numel() == 0) return false;
  for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) {
    if (tensor.size(axis) > 1 && tensor.strides()[static_cast<std::size_t>(axis)] == 0) return true;
  }
  return false;
}

void refuse_expanded(const Tensor& tensor, const char* function) {
  if (!is_expanded(tensor)) return;
  throw InvalidArgumentError(function, ": the tensor (shape ", tensor.shape(),
                             ") is expanded: elements share memory; clone() it first");
}

namespace kernels {
namespace {

// The bytes from the first to behind the last one.
std::pair<const std::byte*, const std::byte*> range_of(const Tensor& tensor) {
  const auto* first = static_cast<const std::byte*>(tensor.address());
  const std::byte* last = first;
  const auto unit = static_cast<std::int64_t>(size_of(tensor.dtype()));
  for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
    const std::int64_t reach = (tensor.shape()[i] - 1) * tensor.strides()[i] * unit;
    (reach < 0 ? first : last) += reach;
  }
  return {first, last + unit};
}

// Steps are in elements.
using CopyRow = void (*)(std::byte* out, std::int64_t step_out, const std::byte* in,
                         std::int64_t step_in, std::int64_t n);

template <typename To, typename From>
void copy_row(std::byte* out_bytes, std::int64_t step_out, const std::byte* in_bytes,
              std::int64_t step_in, std::int64_t n) {
  To* const out = reinterpret_cast<To*>(out_bytes);
  const From* const in = reinterpret_cast<const From*>(in_bytes);
  if constexpr (std::is_same_v<To, From>) {
    if (step_out == 1 && step_in == 1) {
      std::memmove(out_bytes, in_bytes, static_cast<std::size_t>(n) * sizeof(To));
      return;
    }
  } else if constexpr (std::is_same_v<To, float> && std::is_same_v<From, BFloat16>) {
    if (step_out == 1 && step_in == 1) return isa::table().bf16.widen(in, out, n);
  } else if constexpr (std::is_same_v<To, BFloat16> && std::is_same_v<From, float>) {
    if (step_out == 1 && step_in == 1) return isa::table().bf16.narrow(in, out, n);
  }
  for (std::int64_t i = 0; i < n; ++i) out[i * step_out] = convert<To>(in[i * step_in]);
}

// Null where there is no conversion: copy_into() has refused that.
CopyRow copy_row_of(DType to, DType from) {
  return dispatch_any(to, [from](auto to_tag) {
    using To = typename decltype(to_tag)::type;
    return dispatch_any(from, [](auto from_tag) -> CopyRow {
      using From = typename decltype(from_tag)::type;
      if constexpr (kConverts<To, From>) {
        return copy_row<To, From>;
      } else {
        return nullptr;
      }
    });
  });
}

template <typename T>
bool fits(double value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value == 0.0 || value == 1.0;
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    const double whole = std::trunc(value);
    return whole >= static_cast<double>(Limits::min()) &&
           whole < static_cast<double>(Limits::max()) + 1.0;
  } else {
    return true;
  }
}

}  // namespace

bool may_overlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [a_begin, a_end] = range_of(a);
  const auto [b_begin, b_end] = range_of(b);
  return a_begin < b_end && b_begin < a_end;
}

Tensor apart_from(const Tensor& written, const Tensor& read) {
  return may_overlap(written, read) ? clone(read) : read;
}

Tensor in_place_of(const Tensor& place, Shape shape, const Tensor& a, const Tensor& b) {
  const bool fits = place.defined() && place.shape() == shape && place.dtype() == a.dtype() &&
                    place.is_contiguous() && !may_overlap(place, a) && !may_overlap(place, b);
  return fits ? place : Tensor::empty(std::move(shape), a.dtype());
}

Tensor contiguous(const Tensor& a) {
  return a.is_contiguous() ? a : clone(a);
}

Tensor clone(const Tensor& a) {
  Tensor result = Tensor::empty(a.shape(), a.dtype(), a.device());
  copy_into(result, a);
  return result;
}

Tensor to(const Tensor& a, DType dtype) {
  if (a.dtype() == dtype) return a;
  Tensor result = Tensor::empty(a.shape(), dtype, a.device());
  copy_into(result, a);
  return result;
}

Tensor to_device(const Tensor& a, const Device& device) {
  const Device from = a.device();
  if (from == device) return a;
  const Tensor dense = contiguous(a);
  Tensor result = Tensor::empty(a.shape(), a.dtype(), device);
  const std::size_t bytes = bytes_of(a);
  if (bytes == 0) return result;
  if (is_on_cpu(a)) {
    memory_of(device).copy_from_host(device.index, result.address(), dense.data(), bytes);
  } else if (is_on_cpu(result)) {
    memory_of(dense).copy_to_host(from.index, result.data(), dense.address(), bytes);
  } else {
    memory_of(device).copy_between(device.index, result.address(), from.index, dense.address(),
                                   bytes);
  }
  return result;
}

namespace host {

void copy_into(const Tensor& target, const Tensor& source) {
  const auto from =
      shapes::broadcast_strides(source.shape(), source.strides(), target.shape(), "copy");
  const CopyRow row = copy_row_of(target.dtype(), source.dtype());
  auto* const out = static_cast<std::byte*>(target.data());
  const auto* const in = static_cast<const std::byte*>(source.data());
  const auto out_bytes = static_cast<std::int64_t>(size_of(target.dtype()));
  const auto in_bytes = static_cast<std::int64_t>(size_of(source.dtype()));
  for_each_row<2>(target.shape(), {target.strides(), from},
                  [&](const auto& at, std::int64_t n, const auto& step) {
                    row(out + at[0] * out_bytes, step[0], in + at[1] * in_bytes, step[1], n);
                  });
}

void fill(const Tensor& target, double value) {
  dispatch_any(target.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = target.data<T>();
    const T element = convert<T>(value);
    for_each_row<1>(target.shape(), {target.strides()},
                    [&](const auto& at, std::int64_t n, const auto& step) {
                      for (std::int64_t i = 0; i < n; ++i) out[at[0] + i * step[0]] = element;
                    });
  });
}

}  // namespace host

void copy_into(const Tensor& target, const Tensor& source) {
  if (is_complex(source.dtype()) && !is_complex(target.dtype())) {
    throw InvalidArgumentError("copy: ", source.dtype(),
                               " elements would lose their imaginary parts as ", target.dtype());
  }
  backend_of(target).copy_into(target, to_device(source, target.device()));
  bump_version(target);
}

bool fits(double value, DType dtype) {
  return dispatch_any(dtype, [&](auto tag) { return fits<typename decltype(tag)::type>(value); });
}

void require_fits(double value, DType dtype, const char* function) {
  if (fits(value, dtype)) return;
  throw InvalidArgumentError(function, ": ", value, " does not fit dtype ", dtype);
}

void require_whole(double value, DType dtype) {
  const bool has_fractions = is_floating(dtype) || is_complex(dtype);
  if (has_fractions || (std::isfinite(value) && value == std::trunc(value))) return;
  throw InvalidArgumentError("the number ", value, " is not a ", dtype);
}

void fill(const Tensor& target, double value) {
  require_fits(value, target.dtype(), "fill");
  backend_of(target).fill(target, value);
  bump_version(target);
}

}  // namespace kernels
}  // namespace hvd
