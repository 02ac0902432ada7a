#include "horovod_cpp/tensor/kernels/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "core/base/status.h"
#include "horovod_cpp/tensor/backend.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/loops.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::kernels {
namespace {

// Adds a row of the input to one element (step_out 0) or to a row of the output.
template <typename T, typename Out>
void sum_row(const T* in, std::int64_t step_in, Out* out, std::int64_t step_out, std::int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    const isa::Kernels<T>& kernels = isa::table().of<T>();
    if (step_out == 0 && step_in == 1) {
      *out += static_cast<Out>(kernels.sum(in, n));
      return;
    }
    if (step_out == 1 && step_in == 1) {
      kernels.add_scaled(out, in, T(1), n);
      return;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) out[i * step_out] += convert<Out>(in[i * step_in]);
}

// Whether a NaN, or what is further out, takes the place of the best so far.
template <typename T>
bool beats(T value, T best, bool largest) {
  if constexpr (std::is_floating_point_v<T>) {
    if (best != best) return false;
    if (value != value) return true;
  }
  return largest ? value > best : value < best;
}

template <typename Call>
Tensor by_rows(const Tensor& a, Call call) {
  Tensor result = Tensor::empty(a.shape(), a.dtype());
  if (a.numel() == 0) return result;
  const std::int64_t columns = a.dim() == 0 ? 1 : a.size(-1);
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    call(isa::table().of<T>(), tag, result.data<T>(), a.numel() / columns, columns);
  });
  return result;
}

}  // namespace

Tensor rows_along(const Tensor& a, std::int64_t axis) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < a.dim(); ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  return contiguous(permute(a, order));
}

namespace host {

Tensor sum(const Tensor& a, const std::vector<bool>& mask) {
  if (is_half(a.dtype())) return to(sum(cast(a, DType::kF32), mask), a.dtype());
  const DType dtype = is_floating(a.dtype()) ? a.dtype() : DType::kI64;
  Tensor kept = Tensor::zeros(shapes::reduced(a.shape(), mask, true), dtype);
  std::vector<std::int64_t> out_strides = kept.strides();
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) out_strides[i] = 0;
  }
  dispatch(a.dtype(), "sum", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Out = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
    if constexpr (!std::is_class_v<T>) {
      const T* in = a.data<T>();
      Out* out = kept.data<Out>();
      for_each_row<2>(a.shape(), {out_strides, a.strides()},
                      [&](const auto& at, std::int64_t n, const auto& step) {
                        sum_row(in + at[1], step[1], out + at[0], step[0], n);
                      });
    }
  });
  return kept;
}

}  // namespace host

Tensor sum(const Tensor& a, const std::vector<bool>& mask, bool keepdim) {
  if (a.dtype() == DType::kBool) return sum(to(a, DType::kU8), mask, keepdim);
  require_arithmetic(a.dtype(), "sum");
  const Tensor kept = backend_of(a).sum(a, mask);
  return keepdim ? kept : reshape(kept, shapes::reduced(a.shape(), mask, false));
}

Tensor sum_to(const Tensor& a, const Shape& shape) {
  if (a.shape() == shape) return a;
  const std::size_t lead = a.shape().size() - shape.size();
  std::vector<bool> mask(a.shape().size(), true);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    mask[lead + i] = shape[i] == 1 && a.shape()[lead + i] != 1;
  }
  return reshape(sum(a, mask, true), shape);
}

Tensor arg_extreme(const Tensor& a, std::int64_t axis, bool largest, bool keepdim,
                   const char* function) {
  require_cpu(function, {&a});
  const std::int64_t at = shapes::axis(axis, a.dim(), function);
  require_arithmetic(a.dtype(), function);
  if (a.size(at) == 0) {
    throw InvalidArgumentError(function, ": axis ", axis, " of shape ", a.shape(), " is empty");
  }
  std::vector<bool> mask(static_cast<std::size_t>(a.dim()), false);
  mask[static_cast<std::size_t>(at)] = true;
  Tensor result = Tensor::empty(shapes::reduced(a.shape(), mask, keepdim), DType::kI64);
  const Tensor rows = rows_along(is_half(a.dtype()) ? to(a, DType::kF32) : a, at);
  const std::int64_t columns = a.size(at);
  dispatch(rows.dtype(), function, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_class_v<T>) {
      const T* in = rows.data<T>();
      std::int64_t* out = result.data<std::int64_t>();
      for (std::int64_t row = 0; row < result.numel(); ++row, in += columns) {
        out[row] = 0;
        for (std::int64_t i = 1; i < columns; ++i) {
          if (beats(in[i], in[out[row]], largest)) out[row] = i;
        }
      }
    }
  });
  return result;
}

Tensor softmax(const Tensor& a) {
  return by_rows(a, [&](const auto& kernels, auto tag, auto* out, auto rows, auto columns) {
    kernels.softmax(a.data<typename decltype(tag)::type>(), out, rows, columns);
  });
}

Tensor softmax_grad(const Tensor& grad, const Tensor& result) {
  return by_rows(grad, [&](const auto& kernels, auto tag, auto* out, auto rows, auto columns) {
    using T = typename decltype(tag)::type;
    kernels.softmax_grad(grad.data<T>(), result.data<T>(), out, rows, columns);
  });
}

Tensor log_softmax(const Tensor& a) {
  return by_rows(a, [&](const auto& kernels, auto tag, auto* out, auto rows, auto columns) {
    kernels.log_softmax(a.data<typename decltype(tag)::type>(), out, rows, columns);
  });
}

Tensor log_softmax_grad(const Tensor& grad, const Tensor& result) {
  return by_rows(grad, [&](const auto& kernels, auto tag, auto* out, auto rows, auto columns) {
    using T = typename decltype(tag)::type;
    kernels.log_softmax_grad(grad.data<T>(), result.data<T>(), out, rows, columns);
  });
}

// -- functions of rows

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
      throw InvalidArgumentError("bincount: ", in[i], " at index ", i,
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
