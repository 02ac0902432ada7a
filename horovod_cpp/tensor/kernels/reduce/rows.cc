#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>

#include "core/base/status.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::kernels {
namespace {

std::int64_t columns_of(const Tensor& rows) {
  return rows.dim() == 0 ? 1 : rows.size(-1);
}

// Calls `row(in, out)` for each row; integers and bools are int64 on the way.
template <typename Row>
Tensor accumulate(const Tensor& rows, const char* function, const Shape& shape,
                  std::int64_t out_columns, Row row) {
  if (is_half(rows.dtype())) {
    return to(accumulate(to(rows, DType::kF32), function, shape, out_columns, row), rows.dtype());
  }
  if (!is_floating(rows.dtype())) {
    if (rows.dtype() != DType::kBool) require_arithmetic(rows.dtype(), function);
    if (rows.dtype() != DType::kI64) {
      return accumulate(to(rows, DType::kI64), function, shape, out_columns, row);
    }
  }
  Tensor result = Tensor::empty(shape, rows.dtype());
  if (result.numel() == 0) return result;
  const std::int64_t columns = columns_of(rows);
  const std::int64_t count = result.numel() / out_columns;
  const auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < count; ++i) {
      row(rows.data<T>() + i * columns, result.data<T>() + i * out_columns, columns);
    }
  };
  if (rows.dtype() == DType::kI64) {
    run(TypeTag<std::int64_t>{});
  } else {
    dispatch_float(rows.dtype(), run);
  }
  return result;
}

// What sums and products of T are kept in: int64 wraps.
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

template <typename T>
bool before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b != b) return a == a;
  }
  return a < b;
}

}  // namespace

Tensor cumsum(const Tensor& rows, bool reverse) {
  require_cpu("cumsum", {&rows});
  return accumulate(rows, "cumsum", rows.shape(), columns_of(rows),
                    [reverse](const auto* in, auto* out, std::int64_t n) {
                      using T = std::remove_pointer_t<decltype(out)>;
                      Wide<T> sum = 0;
                      for (std::int64_t i = 0; i < n; ++i) {
                        const std::int64_t at = reverse ? n - 1 - i : i;
                        sum += static_cast<Wide<T>>(in[at]);
                        out[at] = static_cast<T>(sum);
                      }
                    });
}

Tensor prod(const Tensor& rows) {
  require_cpu("prod", {&rows});
  Shape shape = rows.shape();
  if (!shape.empty()) shape.pop_back();
  return accumulate(rows, "prod", shape, 1, [](const auto* in, auto* out, std::int64_t n) {
    using T = std::remove_pointer_t<decltype(out)>;
    Wide<T> product = 1;
    for (std::int64_t i = 0; i < n; ++i) product *= static_cast<Wide<T>>(in[i]);
    *out = static_cast<T>(product);
  });
}

Tensor prod_of_others(const Tensor& rows) {
  return accumulate(rows, "prod", rows.shape(), columns_of(rows),
                    [](const auto* in, auto* out, std::int64_t n) {
                      using T = std::remove_pointer_t<decltype(out)>;
                      Wide<T> product = 1;
                      for (std::int64_t i = 0; i < n; ++i) {
                        out[i] = static_cast<T>(product);
                        product *= static_cast<Wide<T>>(in[i]);
                      }
                      product = 1;
                      for (std::int64_t i = n; i-- > 0;) {
                        out[i] = static_cast<T>(static_cast<Wide<T>>(out[i]) * product);
                        product *= static_cast<Wide<T>>(in[i]);
                      }
                    });
}

Tensor argsort(const Tensor& rows, bool descending) {
  require_cpu("argsort", {&rows});
  if (is_half(rows.dtype())) return argsort(to(rows, DType::kF32), descending);
  if (rows.dtype() == DType::kBool) return argsort(to(rows, DType::kU8), descending);
  require_arithmetic(rows.dtype(), "sort");
  Tensor result = Tensor::empty(rows.shape(), DType::kI64);
  const std::int64_t columns = columns_of(rows);
  dispatch(rows.dtype(), "sort", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_class_v<T>) {
      const T* in = rows.data<T>();
      std::int64_t* out = result.data<std::int64_t>();
      for (std::int64_t done = 0; done < rows.numel(); done += columns) {
        std::iota(out, out + columns, 0);
        std::stable_sort(out, out + columns, [&](std::int64_t a, std::int64_t b) {
          return descending ? before(in[b], in[a]) : before(in[a], in[b]);
        });
        in += columns;
        out += columns;
      }
    }
  });
  return result;
}

Tensor bincount(const Tensor& values, std::int64_t length) {
  require_cpu("bincount", {&values});
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / sizeof(std::int64_t);
  const std::int64_t* in = values.data<std::int64_t>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    if (in[i] < 0 || in[i] >= kMost) {
      throw InvalidArgumentError("bincount: " + std::to_string(in[i]) + " at index " +
                                 std::to_string(i) +
                                 (in[i] < 0 ? " is negative" : " needs over 2^63 bytes of counts"));
    }
    length = std::max(length, in[i] + 1);
  }
  Tensor result = Tensor::zeros({length}, DType::kI64);
  std::int64_t* out = result.data<std::int64_t>();
  for (std::int64_t i = 0; i < values.numel(); ++i) ++out[in[i]];
  return result;
}

Normalized normalize_rows(const Tensor& input, std::int64_t rows, double eps) {
  const Normalized result = {Tensor::empty(input.shape(), input.dtype()),
                             Tensor::empty({rows}, DType::kF64)};
  if (input.numel() == 0) return result;
  const std::int64_t columns = input.numel() / rows;
  const auto count = static_cast<double>(columns);
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const isa::Kernels<T>& kernels = isa::table().of<T>();
    const T* in = input.data<T>();
    T* out = result.values.data<T>();
    for (std::int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
      const double mean = kernels.sum(in, columns) / count;
      const T center = static_cast<T>(mean);
      const double shift = mean - static_cast<double>(center);
      const double variance =  // in this order a NaN stays
          std::max(kernels.sum_squares(in, center, columns) / count - shift * shift, 0.0);
      const double inverse = 1.0 / std::sqrt(variance + eps);
      result.inverse.data<double>()[row] = inverse;
      kernels.affine(in, static_cast<T>(inverse), static_cast<T>(-mean * inverse), out, columns);
    }
  });
  return result;
}

Tensor normalize_rows_grad(const Tensor& grad, const Tensor& values, const Tensor& inverse) {
  Tensor result = Tensor::empty(grad.shape(), grad.dtype());
  if (grad.numel() == 0) return result;
  const std::int64_t rows = inverse.numel();
  const std::int64_t columns = grad.numel() / rows;
  dispatch_float(grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const isa::Kernels<T>& kernels = isa::table().of<T>();
    const T* g = grad.data<T>();
    const T* y = values.data<T>();
    T* out = result.data<T>();
    for (std::int64_t row = 0; row < rows; ++row, g += columns, y += columns, out += columns) {
      // inverse * (g - mean(g) - y * mean(g * y))
      const double scale = inverse.data<double>()[row];
      const double share = scale / static_cast<double>(columns);
      kernels.affine2(g, static_cast<T>(scale), y,
                      static_cast<T>(-share * kernels.dot(g, y, T(0), columns)),
                      static_cast<T>(-share * kernels.sum(g, columns)), out, columns);
    }
  });
  return result;
}

}  // namespace hvd::kernels
