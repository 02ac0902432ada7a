
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using kernels::Compare;
using kernels::Logical;

Tensor zero_of(const Tensor& a) {
  return Tensor::zeros({}, a.dtype());
}

Tensor compared(Compare op, const Tensor& a, const Tensor& b, const char* name) {
  if (!autograd::mixes(a, b)) return kernels::compare(op, a, b, name);
  const DType dtype = autograd::wider(a.dtype(), b.dtype());
  return kernels::compare(op, kernels::cast(a, dtype), kernels::cast(b, dtype), name);
}

// Whether an integer dtype has this number; others take any.
bool holds(DType dtype, double number) {
  return dispatch_any(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      return number == std::trunc(number) && number >= static_cast<double>(Limits::min()) &&
             number < static_cast<double>(Limits::max()) + 1.0;
    } else {
      return true;
    }
  });
}

Tensor compared(Compare op, const Tensor& a, double b, const char* name) {
  if (holds(a.dtype(), b)) return compared(op, a, autograd::operand(b, a), name);
  return kernels::compare(op, kernels::to(a, DType::kF64), Tensor::scalar(b, DType::kF64), name);
}

Tensor any_true(const Tensor& bools, const std::vector<bool>& axes, bool keepdim) {
  return kernels::sum(bools, axes, keepdim).to(DType::kBool);
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) {
  return compared(Compare::kEq, a, b, "eq");
}
Tensor ne(const Tensor& a, const Tensor& b) {
  return compared(Compare::kNe, a, b, "ne");
}
Tensor lt(const Tensor& a, const Tensor& b) {
  return compared(Compare::kLt, a, b, "lt");
}
Tensor le(const Tensor& a, const Tensor& b) {
  return compared(Compare::kLe, a, b, "le");
}
Tensor gt(const Tensor& a, const Tensor& b) {
  return compared(Compare::kGt, a, b, "gt");
}
Tensor ge(const Tensor& a, const Tensor& b) {
  return compared(Compare::kGe, a, b, "ge");
}
Tensor eq(const Tensor& a, double b) {
  return compared(Compare::kEq, a, b, "eq");
}
Tensor ne(const Tensor& a, double b) {
  return compared(Compare::kNe, a, b, "ne");
}
Tensor lt(const Tensor& a, double b) {
  return compared(Compare::kLt, a, b, "lt");
}
Tensor le(const Tensor& a, double b) {
  return compared(Compare::kLe, a, b, "le");
}
Tensor gt(const Tensor& a, double b) {
  return compared(Compare::kGt, a, b, "gt");
}
Tensor ge(const Tensor& a, double b) {
  return compared(Compare::kGe, a, b, "ge");
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return kernels::logical(Logical::kAnd, a, b, "logical_and");
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return kernels::logical(Logical::kOr, a, b, "logical_or");
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return kernels::logical(Logical::kXor, a, b, "logical_xor");
}
Tensor logical_not(const Tensor& a) {
  return kernels::logical(Logical::kXor, a, Tensor::ones({}, DType::kBool), "logical_not");
}
Tensor isnan(const Tensor& a) {
  return kernels::compare(Compare::kNe, a, a, "isnan");
}

Tensor any(const Tensor& a, std::vector<std::int64_t> axes, bool keepdim) {
  return any_true(kernels::truth(a), shapes::axis_mask(axes, a.dim(), "any"), keepdim);
}

Tensor all(const Tensor& a, std::vector<std::int64_t> axes, bool keepdim) {
  return logical_not(any_true(logical_not(a), shapes::axis_mask(axes, a.dim(), "all"), keepdim));
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (autograd::mixes(a, b)) {
    return autograd::mixed(
        a, b, [&](const Tensor& x, const Tensor& y) { return where(condition, x, y); });
  }
  Tensor result = kernels::where(condition, a, b, "where");
  const autograd::Saved chosen(condition);
  return autograd::combined(
      a, b, std::move(result), "where",
      [=](const Tensor& gradient) {
        return where(chosen.get("where"), gradient, zero_of(gradient));
      },
      [=](const Tensor& gradient) {
        return where(chosen.get("where"), zero_of(gradient), gradient);
      });
}

Tensor masked_fill(const Tensor& a, const Tensor& mask, double value) {
  return masked_fill(a, mask, Tensor::scalar(value, a.dtype()));
}

Tensor masked_fill(const Tensor& a, const Tensor& mask, const Tensor& value) {
  if (shapes::broadcast(a.shape(), mask.shape(), "masked_fill") != a.shape()) {
    throw InvalidArgumentError("masked_fill: mask " + to_string(mask.shape()) +
                               " does not broadcast to " + to_string(a.shape()));
  }
  if (value.numel() != 1) {
    throw InvalidArgumentError("masked_fill: takes a value of one element, not of shape " +
                               to_string(value.shape()));
  }
  return where(mask, autograd::operand(value.reshape({}), a), a);
}

}  // namespace hvd
