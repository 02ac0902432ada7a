#include "horovod_cpp/tensor/kernels/reduce/reduce.h"

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
    throw InvalidArgumentError(std::string(function) + ": axis " + std::to_string(axis) +
                               " of shape " + to_string(a.shape()) + " is empty");
  }
  std::vector<bool> mask(static_cast<std::size_t>(a.dim()), false);
  mask[static_cast<std::size_t>(at)] = true;
  Tensor result = Tensor::empty(shapes::reduced(a.shape(), mask, keepdim), DType::kI64);
  const bool half = a.dtype() == DType::kF16 || a.dtype() == DType::kBF16;
  const Tensor rows = rows_along(half ? to(a, DType::kF32) : a, at);
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

}  // namespace hvd::kernels
