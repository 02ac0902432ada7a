#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/loops.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace kernels {
namespace {

// out = op(a, b) over broadcast operands of the C++ type T.
template <typename T, typename Op>
Tensor zip_to_bool(const Tensor& a, const Tensor& b, const char* function, Op op) {
  Tensor result = Tensor::empty(shapes::broadcast(a.shape(), b.shape(), function), DType::kBool);
  const Shape& shape = result.shape();
  const T* x = a.data<T>();
  const T* y = b.data<T>();
  bool* out = result.data<bool>();
  for_each_row<3>(
      shape,
      {result.strides(), shapes::broadcast_strides(a.shape(), a.strides(), shape, function),
       shapes::broadcast_strides(b.shape(), b.strides(), shape, function)},
      [&](const auto& at, std::int64_t n, const auto& step) {
        bool* const to = out + at[0];
        const T* const from_a = x + at[1];
        const T* const from_b = y + at[2];
        if (step[1] == 1 && step[2] == 1) {
          for (std::int64_t i = 0; i < n; ++i) to[i] = op(from_a[i], from_b[i]);
        } else if (step[1] == 1 && step[2] == 0) {
          const T right = *from_b;
          for (std::int64_t i = 0; i < n; ++i) to[i] = op(from_a[i], right);
        } else {
          for (std::int64_t i = 0; i < n; ++i) {
            to[i * step[0]] = op(from_a[i * step[1]], from_b[i * step[2]]);
          }
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
    throw InvalidArgumentError(std::string(function) + ": complex numbers have no order");
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
    throw InvalidArgumentError(std::string(function) + ": the condition is bool, not " +
                               std::string(name_of(condition.dtype())));
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

}  // namespace kernels
}  // namespace hvd
