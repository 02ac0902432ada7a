#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "core/base/status.h"
#include "horovod_cpp/tensor/backend.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/loops.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::kernels {
namespace {

[[noreturn]] void refuse(const char* function, DType dtype) {
  throw InvalidArgumentError(function, ": not defined for dtype ", dtype);
}

// Sums of bools are true where one is, products where both are.
Tensor bool_binary(Binary op, const Tensor& a, const Tensor& b, const char* function) {
  switch (op) {
    case Binary::kAdd:
    case Binary::kMaximum:
      return logical(Logical::kOr, a, b, function);
    case Binary::kMul:
    case Binary::kMinimum:
      return logical(Logical::kAnd, a, b, function);
    default:
      refuse(function, DType::kBool);
  }
}

// The functions that integers have.
Tensor integer_unary(Unary op, const Tensor& a, const char* function) {
  const Tensor zero = Tensor::zeros({}, a.dtype(), a.device());
  switch (op) {
    case Unary::kNeg:
      return binary(Binary::kSub, zero, a, function);
    case Unary::kSquare:
      return binary(Binary::kMul, a, a, function);
    case Unary::kAbs:
      if (a.dtype() == DType::kU8) return clone(a);
      return binary(Binary::kMaximum, a, binary(Binary::kSub, zero, a, function), function);
    case Unary::kSign:
      return binary(Binary::kSub, to(compare(Compare::kGt, a, zero, function), a.dtype()),
                    to(compare(Compare::kLt, a, zero, function), a.dtype()), function);
    default:
      refuse(function, a.dtype());
  }
}

template <typename T>
void binary_row(Binary op, const T* a, std::int64_t sa, const T* b, std::int64_t sb, T* out,
                std::int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    isa::table().of<T>().binary(op, a, sa, b, sb, out, n);
  } else if constexpr (std::is_integral_v<T>) {
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = engine::element::integer_of(op, a[i * sa], b[i * sb]);
  } else {
    throw InternalError("half types compute in float32");
  }
}

// row(a, its step, b, its step, out, count) for each row of `result`, to whose shape `a` and `b`
// are broadcast.
template <typename T, typename Out, typename Row>
void for_each_broadcast_row(const Tensor& a, const Tensor& b, const Tensor& result,
                            const char* function, Row row) {
  const Shape& shape = result.shape();
  const T* x = a.data<T>();
  const T* y = b.data<T>();
  Out* out = result.data<Out>();
  for_each_row<3>(
      shape,
      {result.strides(), shapes::broadcast_strides(a.shape(), a.strides(), shape, function),
       shapes::broadcast_strides(b.shape(), b.strides(), shape, function)},
      [&](const auto& at, std::int64_t n, const auto& step) {
        row(x + at[1], step[1], y + at[2], step[2], out + at[0], n);
      });
}

}  // namespace

Tensor cast(const Tensor& a, DType dtype) {
  if (a.dtype() == dtype) return a;
  std::vector<std::int64_t> order(static_cast<std::size_t>(a.dim()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::int64_t axis) {
    return a.strides()[static_cast<std::size_t>(axis)];
  });
  const Tensor dense = permute(a, order);
  if (a.is_contiguous() || !dense.is_contiguous()) return to(a, dtype);
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return permute(to(dense, dtype), back);
}

void widen(const Tensor& a, std::int64_t first, float* out, std::int64_t n) {
  if (a.dtype() == DType::kBF16) {
    isa::table().bf16.widen(a.data<BFloat16>() + first, out, n);
    return;
  }
  const Float16* in = a.data<Float16>() + first;
  for (std::int64_t i = 0; i < n; ++i) out[i] = to_float(in[i]);
}

void narrow(const float* in, const Tensor& a, std::int64_t first, std::int64_t n) {
  if (a.dtype() == DType::kBF16) {
    isa::table().bf16.narrow(in, a.data<BFloat16>() + first, n);
    return;
  }
  Float16* out = a.data<Float16>() + first;
  for (std::int64_t i = 0; i < n; ++i) out[i] = to_float16(in[i]);
}

Tensor widened_images(const Tensor& images, std::int64_t first, std::int64_t last) {
  Shape shape = images.shape();
  shape[0] = last - first;
  const Tensor part = empty_channels_last(shape, DType::kF32);
  const std::int64_t image = images.numel() / images.size(0);
  widen(images, first * image, part.data<float>(), part.numel());
  return part;
}

void put_images(const Tensor& part, const Tensor& images, std::int64_t first) {
  narrow(part.data<float>(), images, first * (images.numel() / images.size(0)), part.numel());
}

namespace {

constexpr std::int64_t kChunk = 2048;  // floats that stay in the first-level cache

template <typename Body>
void for_each_chunk(std::int64_t n, Body body) {
  for (std::int64_t at = 0; at < n; at += kChunk) body(at, std::min(kChunk, n - at));
}

Tensor half_unary(isa::Unary op, const Tensor& a) {
  const Tensor in = contiguous(a);
  Tensor result = Tensor::empty(a.shape(), a.dtype());
  alignas(64) float chunk[kChunk];
  for_each_chunk(in.numel(), [&](std::int64_t at, std::int64_t n) {
    widen(in, at, chunk, n);
    isa::table().f32.unary(op, chunk, chunk, n);
    narrow(chunk, result, at, n);
  });
  return result;
}

Tensor half_binary(isa::Binary op, const Tensor& a, const Tensor& b, const char* function) {
  if (a.shape() != b.shape() || !a.is_contiguous() || !b.is_contiguous()) {
    return cast(binary(op, cast(a, DType::kF32), cast(b, DType::kF32), function), a.dtype());
  }
  Tensor result = Tensor::empty(a.shape(), a.dtype());
  alignas(64) float left[kChunk];
  alignas(64) float right[kChunk];
  for_each_chunk(a.numel(), [&](std::int64_t at, std::int64_t n) {
    widen(a, at, left, n);
    widen(b, at, right, n);
    isa::table().f32.binary(op, left, 1, right, 1, left, n);
    narrow(left, result, at, n);
  });
  return result;
}

}  // namespace

namespace host {

Tensor unary(Unary op, const Tensor& a, const char* /*function*/) {
  const DType dtype = a.dtype();
  if (is_half(dtype)) return half_unary(op, a);
  const Tensor in = contiguous(a);
  Tensor result = Tensor::empty(a.shape(), dtype);
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    isa::table().of<T>().unary(op, in.data<T>(), result.data<T>(), in.numel());
  });
  return result;
}

Tensor binary(Binary op, const Tensor& a, const Tensor& b, const char* function) {
  const DType dtype = a.dtype();
  if (is_half(dtype)) return half_binary(op, a, b, function);
  Tensor result = Tensor::empty(shapes::broadcast(a.shape(), b.shape(), function), dtype);
  dispatch(dtype, function, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_broadcast_row<T, T>(
        a, b, result, function,
        [op](const T* x, std::int64_t x_step, const T* y, std::int64_t y_step, T* out,
             std::int64_t n) { binary_row(op, x, x_step, y, y_step, out, n); });
  });
  return result;
}

void add_into(const Tensor& target, const Tensor& source, double alpha) {
  const auto from =
      shapes::broadcast_strides(source.shape(), source.strides(), target.shape(), "add_");
  dispatch(target.dtype(), "add_", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Compute = typename compute_type<T>::type;
    T* out = target.data<T>();
    const T* in = source.data<T>();
    const Compute factor = convert<Compute>(alpha);
    for_each_row<2>(target.shape(), {target.strides(), from},
                    [&](const auto& at, std::int64_t n, const auto& step) {
                      if constexpr (std::is_floating_point_v<T>) {
                        if (step[0] == 1 && step[1] == 1) {
                          isa::table().of<T>().add_scaled(out + at[0], in + at[1], factor, n);
                          return;
                        }
                      }
                      for (std::int64_t i = 0; i < n; ++i) {
                        T& to = out[at[0] + i * step[0]];
                        to = convert<T>(convert<Compute>(to) +
                                        factor * convert<Compute>(in[at[1] + i * step[1]]));
                      }
                    });
  });
}

void scale(const Tensor& target, double factor) {
  dispatch(target.dtype(), "mul_", [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = target.data<T>();
    for_each_row<1>(target.shape(), {target.strides()},
                    [&](const auto& at, std::int64_t n, const auto& step) {
                      for (std::int64_t i = 0; i < n; ++i) {
                        T& element = out[at[0] + i * step[0]];
                        if constexpr (std::is_floating_point_v<T>) {
                          element *= static_cast<T>(factor);
                        } else {
                          element = convert<T>(convert<double>(element) * factor);
                        }
                      }
                    });
  });
}

}  // namespace host

Tensor unary(Unary op, const Tensor& a, const char* function) {
  if (!is_floating(a.dtype())) {
    require_arithmetic(a.dtype(), function);
    return integer_unary(op, a, function);
  }
  if (is_channels_last(a)) return images_of(unary(op, rows_of(a), function));
  return backend_of(a).unary(op, a, function);
}

Tensor binary(Binary op, const Tensor& a, const Tensor& b, const char* function) {
  shapes::require_same_dtype(a, b, function);
  const Backend& backend = backend_of(function, a, b);
  const DType dtype = a.dtype();
  if (dtype == DType::kBool) return bool_binary(op, a, b, function);
  if (!is_floating(dtype)) {
    require_arithmetic(dtype, function);
    if (!takes_integers(op)) refuse(function, dtype);
  }
  if (a.shape() == b.shape() && is_channels_last(a) && is_channels_last(b)) {
    return images_of(binary(op, rows_of(a), rows_of(b), function));
  }
  return backend.binary(op, a, b, function);
}

Tensor pow(const Tensor& a, double exponent) {
  require_cpu("pow", {&a});
  const DType dtype = a.dtype();
  if (is_half(dtype)) return to(pow(to(a, DType::kF32), exponent), dtype);
  if (!is_floating(dtype)) refuse("pow", dtype);
  const Tensor in = contiguous(a);
  Tensor result = Tensor::empty(a.shape(), dtype);
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    isa::table().of<T>().pow(in.data<T>(), static_cast<T>(exponent), result.data<T>(), in.numel());
  });
  return result;
}

Tensor pow(const Tensor& a, const Tensor& exponent) {
  require_cpu("pow", {&a, &exponent});
  shapes::require_same_dtype(a, exponent, "pow");
  const DType dtype = a.dtype();
  if (is_half(dtype)) return to(pow(to(a, DType::kF32), to(exponent, DType::kF32)), dtype);
  if (!is_floating(dtype)) refuse("pow", dtype);
  Tensor result = Tensor::empty(shapes::broadcast(a.shape(), exponent.shape(), "pow"), dtype);
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_broadcast_row<T, T>(a, exponent, result, "pow",
                                 [](const T* x, std::int64_t x_step, const T* y,
                                    std::int64_t y_step, T* out, std::int64_t n) {
                                   for (std::int64_t i = 0; i < n; ++i) {
                                     out[i] = std::pow(x[i * x_step], y[i * y_step]);
                                   }
                                 });
  });
  return result;
}

void add_into(const Tensor& target, const Tensor& source, double alpha) {
  shapes::require_same_dtype(target, source, "add_");
  const Backend& backend = backend_of("add_", target, source);
  require_arithmetic(target.dtype(), "add_");
  require_whole(alpha, target.dtype());
  if (target.shape() == source.shape() && is_channels_last(target) && is_channels_last(source)) {
    backend.add_into(rows_of(target), rows_of(source), alpha);
  } else {
    backend.add_into(target, source, alpha);
  }
  bump_version(target);
}

void scale(const Tensor& target, double factor) {
  shapes::require_floating(target, "mul_");
  backend_of(target).scale(target, factor);
  bump_version(target);
}

namespace {

// out = op(a, b) over broadcast operands of the C++ type T.
template <typename T, typename Op>
Tensor zip_to_bool(const Tensor& a, const Tensor& b, const char* function, Op op) {
  Tensor result = Tensor::empty(shapes::broadcast(a.shape(), b.shape(), function), DType::kBool);
  for_each_broadcast_row<T, bool>(a, b, result, function,
                                  [op](const T* x, std::int64_t x_step, const T* y,
                                       std::int64_t y_step, bool* out, std::int64_t n) {
                                    if (x_step == 1 && y_step == 1) {
                                      for (std::int64_t i = 0; i < n; ++i) out[i] = op(x[i], y[i]);
                                    } else if (x_step == 1 && y_step == 0) {
                                      const T right = *y;
                                      for (std::int64_t i = 0; i < n; ++i) out[i] = op(x[i], right);
                                    } else {
                                      for (std::int64_t i = 0; i < n; ++i)
                                        out[i] = op(x[i * x_step], y[i * y_step]);
                                    }
                                  });
  return result;
}

template <typename T>
Tensor compare_as(Compare op, const Tensor& a, const Tensor& b, const char* function) {
  switch (op) {
    case Compare::kEq:
      return zip_to_bool<T>(a, b, function, [](T x, T y) { return x == y; });
    case Compare::kNe:
      return zip_to_bool<T>(a, b, function, [](T x, T y) { return x != y; });
    default:
      break;
  }
  if constexpr (kIsComplex<T>) {
    throw InvalidArgumentError(function, ": complex numbers have no order");
  } else {
    switch (op) {
      case Compare::kLt:
        return zip_to_bool<T>(a, b, function, [](T x, T y) { return x < y; });
      case Compare::kLe:
        return zip_to_bool<T>(a, b, function, [](T x, T y) { return x <= y; });
      case Compare::kGt:
        return zip_to_bool<T>(a, b, function, [](T x, T y) { return x > y; });
      default:
        return zip_to_bool<T>(a, b, function, [](T x, T y) { return x >= y; });
    }
  }
}

}  // namespace

Tensor compare(Compare op, const Tensor& a, const Tensor& b, const char* function) {
  require_cpu(function, {&a, &b});
  shapes::require_same_dtype(a, b, function);
  if (is_half(a.dtype())) {
    return compare(op, to(a, DType::kF32), to(b, DType::kF32), function);
  }
  return dispatch_any(a.dtype(), [&](auto tag) -> Tensor {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      throw InternalError("half types compare in float32");
    } else {
      return compare_as<T>(op, a, b, function);
    }
  });
}

Tensor truth(const Tensor& a) {
  if (!is_complex(a.dtype())) return to(a, DType::kBool);
  return compare(Compare::kNe, a, Tensor::zeros({}, a.dtype()), "truth");
}

Tensor logical(Logical op, const Tensor& a, const Tensor& b, const char* function) {
  require_cpu(function, {&a, &b});
  const Tensor x = truth(a);
  const Tensor y = truth(b);
  switch (op) {
    case Logical::kAnd:
      return zip_to_bool<bool>(x, y, function, [](bool p, bool q) { return p && q; });
    case Logical::kOr:
      return zip_to_bool<bool>(x, y, function, [](bool p, bool q) { return p || q; });
    default:
      return zip_to_bool<bool>(x, y, function, [](bool p, bool q) { return p != q; });
  }
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, const char* function) {
  require_cpu(function, {&condition, &a, &b});
  if (condition.dtype() != DType::kBool) {
    throw InvalidArgumentError(function, ": the condition is bool, not ", condition.dtype());
  }
  shapes::require_same_dtype(a, b, function);
  Tensor result =
      Tensor::empty(shapes::broadcast(condition.shape(),
                                      shapes::broadcast(a.shape(), b.shape(), function), function),
                    a.dtype());
  const Shape& shape = result.shape();
  const auto strides = [&](const Tensor& operand) {
    return shapes::broadcast_strides(operand.shape(), operand.strides(), shape, function);
  };
  const bool* chosen = condition.data<bool>();
  dispatch_any(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    T* out = result.data<T>();
    for_each_row<4>(shape, {result.strides(), strides(condition), strides(a), strides(b)},
                    [&](const auto& at, std::int64_t n, const auto& step) {
                      for (std::int64_t i = 0; i < n; ++i) {
                        out[at[0] + i * step[0]] = chosen[at[1] + i * step[1]]
                                                       ? x[at[2] + i * step[2]]
                                                       : y[at[3] + i * step[3]];
                      }
                    });
  });
  return result;
}

bool has_nan(const Tensor& a) {
  require_cpu("detect_anomaly", {&a});
  const Tensor dense = contiguous(is_half(a.dtype()) ? to(a, DType::kF32) : a);
  return dispatch_float(dense.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = dense.data<T>();
    return std::any_of(in, in + dense.numel(), [](T value) { return value != value; });
  });
}

}  // namespace hvd::kernels
