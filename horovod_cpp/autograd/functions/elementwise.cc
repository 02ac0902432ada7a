#include "horovod_cpp/autograd/functions/functions.h"

#include <numbers>

#include "core/base/status.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::mapped;
using autograd::Saved;
using kernels::Binary;
using kernels::Unary;

// A function with g * f'(x) = gradient(g, x).
template <typename Gradient>
Tensor of_operand(Unary op, const Tensor& a, const char* name, Gradient gradient) {
  Tensor result = kernels::unary(op, a, name);
  return mapped(a, std::move(result), name, [=, x = autograd::saved_for(a, a)](const Tensor& g) {
    return gradient(g, x.get(name));
  });
}

// A function with g * f'(x) = gradient(g, f(x)).
template <typename Gradient>
Tensor of_result(Unary op, const Tensor& a, const char* name, Gradient gradient) {
  Tensor result = kernels::unary(op, a, name);
  const Saved y = Saved::result(result);
  return mapped(a, std::move(result), name,
                [=](const Tensor& g) { return gradient(g, y.get(name)); });
}

// The share of the gradient that a side gets which `wins` over the other.
Tensor share(const Tensor& gradient, const Tensor& wins, const Tensor& ties) {
  return where(ties, gradient * 0.5, masked_fill(gradient, logical_not(wins), 0.0));
}

Tensor extreme(const Tensor& a, const Tensor& b, Binary op, const char* name) {
  if (autograd::mixes(a, b)) {
    return autograd::mixed(
        a, b, [&](const Tensor& x, const Tensor& y) { return extreme(x, y, op, name); });
  }
  Tensor result = kernels::binary(op, a, b, name);
  if (!autograd::should_record({&a, &b})) return result;
  const Tensor ties = eq(a, b);
  const Tensor left = logical_or(op == Binary::kMaximum ? gt(a, b) : lt(a, b), isnan(a));
  return autograd::combined(
      a, b, std::move(result), name,
      [=](const Tensor& gradient) { return share(gradient, left, ties); },
      [=](const Tensor& gradient) { return share(gradient, logical_not(left), ties); });
}

}  // namespace

Tensor abs(const Tensor& a) {
  return of_operand(Unary::kAbs, a, "abs",
                    [](const Tensor& g, const Tensor& x) { return g * sign(x); });
}

Tensor sign(const Tensor& a) {
  return mapped(a, kernels::unary(Unary::kSign, a, "sign"), "sign",
                [](const Tensor& g) { return Tensor::zeros(g.shape(), g.dtype(), g.device()); });
}

Tensor square(const Tensor& a) {
  return of_operand(Unary::kSquare, a, "square",
                    [](const Tensor& g, const Tensor& x) { return g * x * 2.0; });
}

Tensor clamp(const Tensor& a, std::optional<double> min, std::optional<double> max) {
  if (!min && !max) throw InvalidArgumentError("clamp: neither min nor max is given");
  Tensor result = a.detach();
  if (min) result = kernels::binary(Binary::kMaximum, result, autograd::operand(*min, a), "clamp");
  if (max) result = kernels::binary(Binary::kMinimum, result, autograd::operand(*max, a), "clamp");
  return mapped(a, std::move(result), "clamp",
                [=, x = autograd::saved_for(a, a.detach())](const Tensor& g) {
                  const Tensor values = x.get("clamp");
                  Tensor gradient = g;
                  if (min) gradient = masked_fill(gradient, values < *min, 0.0);
                  if (max) gradient = masked_fill(gradient, values > *max, 0.0);
                  return gradient;
                });
}

Tensor clamp(const Tensor& a, const Tensor& min, const Tensor& max) {
  if (!min.defined() && !max.defined()) {
    throw InvalidArgumentError("clamp: neither min nor max is given");
  }
  const auto bounded = [&a](const Tensor& values, const Tensor& given, auto beyond) {
    if (!given.defined()) return values;
    shapes::broadcast(values.shape(), given.shape(), "clamp");  // named so, not after a comparison
    const Tensor bound = autograd::operand(given, a);
    return where(logical_or(beyond(values, bound), isnan(bound)), bound, values);
  };
  const Tensor raised = bounded(a, min, [](const Tensor& x, const Tensor& y) { return lt(x, y); });
  return bounded(raised, max, [](const Tensor& x, const Tensor& y) { return gt(x, y); });
}

Tensor reciprocal(const Tensor& a) {
  return of_result(Unary::kReciprocal, a, "reciprocal",
                   [](const Tensor& g, const Tensor& y) { return neg(g * y * y); });
}

Tensor rsqrt(const Tensor& a) {
  return of_result(Unary::kRsqrt, a, "rsqrt",
                   [](const Tensor& g, const Tensor& y) { return g * (y * y * y) * -0.5; });
}

Tensor sin(const Tensor& a) {
  return of_operand(Unary::kSin, a, "sin",
                    [](const Tensor& g, const Tensor& x) { return g * cos(x); });
}

Tensor cos(const Tensor& a) {
  return of_operand(Unary::kCos, a, "cos",
                    [](const Tensor& g, const Tensor& x) { return neg(g * sin(x)); });
}

Tensor erf(const Tensor& a) {
  return of_operand(Unary::kErf, a, "erf", [](const Tensor& g, const Tensor& x) {
    return g * exp(neg(x * x)) * (2.0 * std::numbers::inv_sqrtpi);
  });
}

Tensor log1p(const Tensor& a) {
  return of_operand(Unary::kLog1p, a, "log1p",
                    [](const Tensor& g, const Tensor& x) { return g / (x + 1.0); });
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return extreme(a, b, Binary::kMaximum, "maximum");
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return extreme(a, b, Binary::kMinimum, "minimum");
}

}  // namespace hvd
