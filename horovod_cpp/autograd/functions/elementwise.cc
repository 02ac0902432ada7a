// Functions of one element, or of the elements of broadcast operands.
#include <cmath>
#include <numbers>
#include <type_traits>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace autograd {

Tensor sum_to(const Tensor& a, const Shape& shape) {
  if (a.shape() == shape) return a;
  return mapped(a, kernels::sum_to(a, shape), "sum", [from = a.shape()](const Tensor& gradient) {
    Shape kept(from.size(), 1);  // the result's shape, with the axes that broadcasting added
    const Shape& to = gradient.shape();
    std::copy(to.begin(), to.end(), kept.end() - static_cast<std::ptrdiff_t>(to.size()));
    return gradient.reshape(kept).expand(from);
  });
}

Tensor operand(double value, const Tensor& other) {
  if (other.dtype() != DType::kBool)
    require_arithmetic(other.dtype(), "an operation with a number");
  kernels::require_whole(value, other.dtype());
  return Tensor::full({}, value, other.dtype(), other.device());
}

Tensor operand(const Tensor& value, const Tensor& other) {
  if (is_floating(value.dtype()) && !is_floating(other.dtype()) && !is_complex(other.dtype())) {
    throw InvalidArgumentError("a tensor of ", value.dtype(),
                               " cannot stand for a number beside one of ", other.dtype());
  }
  return value.to(other.dtype());
}

}  // namespace autograd

namespace {

using autograd::combined;
using autograd::mapped;
using autograd::mixed;
using autograd::mixes;
using autograd::Saved;
using autograd::saved_for;
using kernels::Binary;
using kernels::Compare;
using kernels::Logical;
using kernels::Unary;

// A function with g * f'(x) = gradient(g, x).
template <typename Gradient>
Tensor of_operand(Unary op, const Tensor& a, const char* name, Gradient gradient) {
  Tensor result = kernels::unary(op, a, name);
  return mapped(a, std::move(result), name,
                [=, x = saved_for(a, a)](const Tensor& g) { return gradient(g, x.get(name)); });
}

// A function with g * f'(x) = gradient(g, f(x)). `at_once`, if given, computes that in one pass,
// for where it is not to be differentiated again.
template <typename Gradient>
Tensor of_result(Unary op, std::optional<Binary> at_once, const Tensor& a, const char* name,
                 Gradient gradient) {
  Tensor result = kernels::unary(op, a, name);
  const Saved y = Saved::result(result);
  return mapped(a, std::move(result), name, [=](const Tensor& g) {
    if (!at_once || grad_enabled()) return gradient(g, y.get(name));
    return kernels::binary(*at_once, g, y.get(name), name);
  });
}

// The share of the gradient that a side gets which `wins` over the other.
Tensor share(const Tensor& gradient, const Tensor& wins, const Tensor& ties) {
  return where(ties, gradient * 0.5, masked_fill(gradient, logical_not(wins), 0.0));
}

Tensor extreme(const Tensor& a, const Tensor& b, Binary op, const char* name) {
  if (mixes(a, b)) {
    return mixed(a, b, [&](const Tensor& x, const Tensor& y) { return extreme(x, y, op, name); });
  }
  Tensor result = kernels::binary(op, a, b, name);
  if (!autograd::should_record({&a, &b})) return result;
  const Tensor ties = eq(a, b);
  const Tensor left = logical_or(op == Binary::kMaximum ? gt(a, b) : lt(a, b), isnan(a));
  return combined(
      a, b, std::move(result), name,
      [=](const Tensor& gradient) { return share(gradient, left, ties); },
      [=](const Tensor& gradient) { return share(gradient, logical_not(left), ties); });
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  if (mixes(a, b)) return mixed(a, b, add);
  const auto same = [](const Tensor& gradient) { return gradient; };
  return combined(a, b, kernels::binary(Binary::kAdd, a, b, "add"), "add", same, same);
}

Tensor sub(const Tensor& a, const Tensor& b) {
  if (mixes(a, b)) return mixed(a, b, sub);
  return combined(
      a, b, kernels::binary(Binary::kSub, a, b, "sub"), "sub",
      [](const Tensor& gradient) { return gradient; },
      [](const Tensor& gradient) { return neg(gradient); });
}

Tensor mul(const Tensor& a, const Tensor& b) {
  if (mixes(a, b)) return mixed(a, b, mul);
  Tensor result = kernels::binary(Binary::kMul, a, b, "mul");
  const Saved left = saved_for(b, a);
  const Saved right = saved_for(a, b);
  return combined(
      a, b, std::move(result), "mul",
      [=](const Tensor& gradient) { return mul(gradient, right.get("mul")); },
      [=](const Tensor& gradient) { return mul(gradient, left.get("mul")); });
}

Tensor div(const Tensor& a, const Tensor& b) {
  if (mixes(a, b)) return mixed(a, b, div);
  Tensor result = kernels::binary(Binary::kDiv, a, b, "div");
  const Saved divisor(b);
  const Saved quotient = autograd::requires_grad(b) ? Saved::result(result) : Saved();
  return combined(
      a, b, std::move(result), "div",
      [=](const Tensor& gradient) { return div(gradient, divisor.get("div")); },
      [=](const Tensor& gradient) {  // -g a / b^2 = -(g / b) (a / b)
        return neg(mul(div(gradient, divisor.get("div")), quotient.get("div")));
      });
}

Tensor neg(const Tensor& a) {
  return mapped(a, kernels::unary(Unary::kNeg, a, "neg"), "neg",
                [](const Tensor& gradient) { return neg(gradient); });
}

Tensor pow(const Tensor& a, double exponent) {
  Tensor result = kernels::pow(a, exponent);
  const Saved x(a);
  return mapped(a, std::move(result), "pow", [=](const Tensor& gradient) {
    if (exponent == 0.0) return Tensor::zeros(gradient.shape(), gradient.dtype());
    const Tensor base = x.get("pow");
    return mul(gradient, (exponent == 2.0 ? base : pow(base, exponent - 1.0)) * exponent);
  });
}

Tensor pow(const Tensor& a, const Tensor& exponent) {
  const Tensor power = autograd::operand(exponent, a);
  Tensor result = kernels::pow(a, power);
  if (!autograd::should_record({&a, &power})) return result;
  const Saved x(a), p(power), y = Saved::result(result);
  return combined(
      a, power, std::move(result), "pow",
      [=](const Tensor& gradient) {
        const Tensor by = p.get("pow");
        const Tensor slope = by * pow(x.get("pow"), by - 1.0);
        return gradient * masked_fill(slope, eq(by, 0.0), 0.0);
      },
      [=](const Tensor& gradient) {
        const Tensor base = x.get("pow");
        const Tensor slope = y.get("pow") * log(base);
        const Tensor flat = logical_and(eq(base, 0.0), ge(p.get("pow"), 0.0));
        return gradient * masked_fill(slope, flat, 0.0);
      });
}

Tensor sign(const Tensor& a) {
  return mapped(a, kernels::unary(Unary::kSign, a, "sign"), "sign",
                [](const Tensor& g) { return Tensor::zeros(g.shape(), g.dtype(), g.device()); });
}

// Functions by their gradients, made of recorded functions: g is the gradient of the result, x the
// operand, y the result.
#define HVD_OF_OPERAND(name, op, gradient)                                        \
  Tensor name(const Tensor& a) {                                                  \
    return of_operand(Unary::op, a, #name,                                        \
                      [](const Tensor& g, const Tensor& x) { return gradient; }); \
  }
#define HVD_OF_RESULT(name, op, at_once, gradient)                               \
  Tensor name(const Tensor& a) {                                                 \
    return of_result(Unary::op, at_once, a, #name,                               \
                     [](const Tensor& g, const Tensor& y) { return gradient; }); \
  }
// clang-format off: it takes products for pointers
HVD_OF_OPERAND(abs, kAbs, g* sign(x))
HVD_OF_OPERAND(square, kSquare, g* x * 2.0)
HVD_OF_OPERAND(log, kLog, g / x)
HVD_OF_OPERAND(log1p, kLog1p, g / (x + 1.0))
HVD_OF_OPERAND(sin, kSin, g* cos(x))
HVD_OF_OPERAND(cos, kCos, neg(g* sin(x)))
HVD_OF_OPERAND(erf, kErf, g* exp(neg(x* x)) * (2.0 * std::numbers::inv_sqrtpi))
HVD_OF_RESULT(reciprocal, kReciprocal, std::nullopt, neg(g* y* y))
HVD_OF_RESULT(rsqrt, kRsqrt, std::nullopt, g*(y* y* y) * -0.5)
HVD_OF_RESULT(exp, kExp, Binary::kMul, g* y)
HVD_OF_RESULT(sqrt, kSqrt, Binary::kSqrtGrad, g / (y * 2.0))
HVD_OF_RESULT(tanh, kTanh, Binary::kTanhGrad, g*(1.0 - y * y))
HVD_OF_RESULT(sigmoid, kSigmoid, Binary::kSigmoidGrad, g* y*(1.0 - y))
HVD_OF_RESULT(relu, kRelu, Binary::kReluGrad, masked_fill(g, y <= 0.0, 0.0))
// clang-format on
#undef HVD_OF_OPERAND
#undef HVD_OF_RESULT

// A number beside a tensor is an operand of its dtype.
#define HVD_OPERATOR(symbol, function)                       \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { \
    return function(a, b);                                   \
  }                                                          \
  Tensor operator symbol(const Tensor& a, double b) {        \
    return function(a, autograd::operand(b, a));             \
  }                                                          \
  Tensor operator symbol(double a, const Tensor& b) {        \
    return function(autograd::operand(a, b), b);             \
  }
HVD_OPERATOR(+, add)
HVD_OPERATOR(-, sub)
HVD_OPERATOR(*, mul)
HVD_OPERATOR(/, div)
#undef HVD_OPERATOR

Tensor operator-(const Tensor& a) {
  return neg(a);
}

Tensor clamp(const Tensor& a, std::optional<double> min, std::optional<double> max) {
  if (!min && !max) throw InvalidArgumentError("clamp: neither min nor max is given");
  Tensor result = a.detach();
  if (min) result = kernels::binary(Binary::kMaximum, result, autograd::operand(*min, a), "clamp");
  if (max) result = kernels::binary(Binary::kMinimum, result, autograd::operand(*max, a), "clamp");
  return mapped(a, std::move(result), "clamp", [=, x = saved_for(a, a.detach())](const Tensor& g) {
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

Tensor maximum(const Tensor& a, const Tensor& b) {
  return extreme(a, b, Binary::kMaximum, "maximum");
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return extreme(a, b, Binary::kMinimum, "minimum");
}

namespace {

// Of the approximate GELU, whose gate is sigmoid(kSlope (a + kCube a^3)).
template <typename T>
constexpr T kSlope = T(1.5957691216057308);  // 2 sqrt(2 / pi)
template <typename T>
constexpr T kCube = T(0.044715);

// function(i-th element of a, of b) for contiguous tensors of one shape.
template <typename Function>
Tensor zipped(const Tensor& a, const Tensor& b, Function function) {
  Tensor result = Tensor::empty(a.shape(), a.dtype());
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    T* out = result.data<T>();
    for (std::int64_t i = 0; i < result.numel(); ++i) out[i] = static_cast<T>(function(x[i], y[i]));
  });
  return result;
}

// a * gate(a), elementwise. `gate` has the gate's values, slope(a, gate) is its derivative;
// recorded(a) is that of the whole, made of recorded functions.
template <typename Gate, typename Slope>
Tensor gated(const Tensor& a, const char* name, Gate gate, Slope slope,
             Tensor (*recorded)(const Tensor& x)) {
  require_cpu(name, {&a});
  if (is_half(a.dtype())) {
    return gated(a.to(DType::kF32), name, gate, slope, recorded).to(a.dtype());
  }
  shapes::require_float(a, name);
  const Tensor x = a.contiguous();
  const Tensor open = gate(x);
  Tensor result = kernels::binary(kernels::Binary::kMul, x, open, name);
  return mapped(x, std::move(result), name,
                [saved = saved_for(x, x), open, slope, name, recorded](const Tensor& gradient) {
                  if (grad_enabled()) return gradient * recorded(saved.get(name));
                  const Tensor factor = zipped(saved.get(name), open, [slope](auto v, auto g) {
                    return g + v * slope(v, g);
                  });
                  return kernels::binary(kernels::Binary::kMul, gradient, factor, name);
                });
}

Tensor sigmoid_of(const Tensor& x) {
  return kernels::unary(kernels::Unary::kSigmoid, x, "sigmoid");
}

// The derivatives of a * gate(a).
Tensor silu_slope(const Tensor& x) {
  const Tensor gate = sigmoid(x);
  return gate + x * gate * (1.0 - gate);
}

Tensor gelu_slope(const Tensor& x) {
  const Tensor gate = (erf(x * (1 / std::numbers::sqrt2)) + 1.0) * 0.5;
  return gate + x * exp(x * x * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

Tensor gelu_tanh_slope(const Tensor& x) {
  constexpr double kS = kSlope<double>, kC = kCube<double>;
  const Tensor gate = sigmoid((x + x * x * x * kC) * kS);
  return gate + x * gate * (1.0 - gate) * (x * x * (3 * kC * kS) + kS);
}

}  // namespace

Tensor leaky_relu(const Tensor& a, double negative_slope) {
  require_cpu("leaky_relu", {&a});
  if (is_half(a.dtype())) return leaky_relu(a.to(DType::kF32), negative_slope).to(a.dtype());
  shapes::require_float(a, "leaky_relu");
  const auto scaled = [negative_slope](const Tensor& values, const Tensor& by) {
    return zipped(values, by, [negative_slope](auto value, auto sign) {
      return sign > 0 ? value : value * static_cast<decltype(value)>(negative_slope);
    });
  };
  const Tensor x = a.contiguous();
  Tensor result = scaled(x, x);
  return mapped(x, std::move(result), "leaky_relu",
                [saved = saved_for(x, x), scaled, negative_slope](const Tensor& gradient) {
                  const Tensor values = saved.get("leaky_relu");
                  if (grad_enabled()) {
                    return where(values > 0.0, gradient, gradient * negative_slope);
                  }
                  return scaled(kernels::contiguous(gradient), values);
                });
}

Tensor silu(const Tensor& a) {
  return gated(
      a, "silu", sigmoid_of, [](auto, auto gate) { return gate * (1 - gate); }, silu_slope);
}

Tensor gelu(const Tensor& a, GeluApproximate approximate) {
  if (approximate == GeluApproximate::kNone) {
    return gated(
        a, "gelu",
        [](const Tensor& x) {
          return zipped(x, x, [](auto value, auto) {
            using T = decltype(value);
            return std::erfc(-value / std::numbers::sqrt2_v<T>) / 2;
          });
        },
        [](auto value, auto) {
          using T = decltype(value);
          return std::exp(-value * value / 2) * std::numbers::inv_sqrtpi_v<T> /
                 std::numbers::sqrt2_v<T>;
        },
        gelu_slope);
  }
  // (1 + tanh(u)) / 2 = sigmoid(2 u)
  return gated(
      a, "gelu",
      [](const Tensor& x) {
        return sigmoid_of(zipped(x, x, [](auto value, auto) {
          using T = decltype(value);
          return kSlope<T> * (value + kCube<T> * value * value * value);
        }));
      },
      [](auto value, auto gate) {
        using T = decltype(value);
        return gate * (1 - gate) * kSlope<T> * (1 + 3 * kCube<T> * value * value);
      },
      gelu_tanh_slope);
}

namespace {

Tensor zero_of(const Tensor& a) {
  return Tensor::zeros({}, a.dtype());
}

Tensor compared(Compare op, const Tensor& a, const Tensor& b, const char* name) {
  if (!mixes(a, b)) return kernels::compare(op, a, b, name);
  const DType dtype = autograd::wider(a.dtype(), b.dtype());
  return kernels::compare(op, kernels::cast(a, dtype), kernels::cast(b, dtype), name);
}

// Whether an integer dtype has this number; others take any.
bool holds(DType dtype, double number) {
  const bool has_fractions = is_floating(dtype) || is_complex(dtype);
  return has_fractions || (number == std::trunc(number) && kernels::fits(number, dtype));
}

Tensor compared(Compare op, const Tensor& a, double b, const char* name) {
  if (holds(a.dtype(), b)) return compared(op, a, autograd::operand(b, a), name);
  return kernels::compare(op, kernels::to(a, DType::kF64), Tensor::scalar(b, DType::kF64), name);
}

Tensor any_true(const Tensor& bools, const std::vector<bool>& axes, bool keepdim) {
  return kernels::sum(bools, axes, keepdim).to(DType::kBool);
}

}  // namespace

#define HVD_COMPARISON(name, op)                  \
  Tensor name(const Tensor& a, const Tensor& b) { \
    return compared(Compare::op, a, b, #name);    \
  }                                               \
  Tensor name(const Tensor& a, double b) {        \
    return compared(Compare::op, a, b, #name);    \
  }
#define HVD_ORDER(name, op, symbol)                          \
  HVD_COMPARISON(name, op)                                   \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { \
    return name(a, b);                                       \
  }                                                          \
  Tensor operator symbol(const Tensor& a, double b) {        \
    return name(a, b);                                       \
  }
HVD_COMPARISON(eq, kEq)
HVD_COMPARISON(ne, kNe)
HVD_ORDER(lt, kLt, <)
HVD_ORDER(le, kLe, <=)
HVD_ORDER(gt, kGt, >)
HVD_ORDER(ge, kGe, >=)
#undef HVD_COMPARISON
#undef HVD_ORDER

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
  if (mixes(a, b)) {
    return mixed(a, b, [&](const Tensor& x, const Tensor& y) { return where(condition, x, y); });
  }
  Tensor result = kernels::where(condition, a, b, "where");
  const Saved chosen(condition);
  return combined(
      a, b, std::move(result), "where",
      [=](const Tensor& gradient) {
        return where(chosen.get("where"), gradient, zero_of(gradient));
      },
      [=](const Tensor& gradient) {
        return where(chosen.get("where"), zero_of(gradient), gradient);
      });
}

Tensor masked_fill(const Tensor& a, const Tensor& mask, double value) {
  kernels::require_whole(value, a.dtype());
  return masked_fill(a, mask, Tensor::scalar(value, a.dtype()));
}

Tensor masked_fill(const Tensor& a, const Tensor& mask, const Tensor& value) {
  if (shapes::broadcast(a.shape(), mask.shape(), "masked_fill") != a.shape()) {
    throw InvalidArgumentError("masked_fill: mask ", mask.shape(), " does not broadcast to ",
                               a.shape());
  }
  if (value.numel() != 1) {
    throw InvalidArgumentError("masked_fill: takes a value of one element, not of shape ",
                               value.shape());
  }
  return where(mask, autograd::operand(value.reshape({}), a), a);
}

Tensor dropout(const Tensor& input, double p, bool training) {
  if (training) require_cpu("dropout", {&input});
  if (!(p >= 0.0 && p <= 1.0)) {
    throw InvalidArgumentError("dropout: probability ", p);
  }
  if (!training || p == 0.0) return input;
  if (p == 1.0) return mul(input, Tensor::zeros(input.shape(), input.dtype()));
  Tensor mask = bernoulli(input.shape(), 1.0 - p, input.dtype());
  kernels::scale(mask, 1.0 / (1.0 - p));
  return mul(input, mask);
}

}  // namespace hvd
