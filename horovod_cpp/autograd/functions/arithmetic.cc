#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"

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
  if (!is_floating(other.dtype()) && value != std::trunc(value)) {
    throw InvalidArgumentError("the number " + std::to_string(value) + " is not a " +
                               std::string(name_of(other.dtype())));
  }
  return Tensor::full({}, value, other.dtype(), other.device());
}

Tensor operand(const Tensor& value, const Tensor& other) {
  if (is_floating(value.dtype()) && !is_floating(other.dtype()) && !is_complex(other.dtype())) {
    throw InvalidArgumentError("a tensor of " + std::string(name_of(value.dtype())) +
                               " cannot stand for a number beside one of " +
                               std::string(name_of(other.dtype())));
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
using kernels::Unary;

// A function whose gradient follows from its result: op(g, y) in one pass, and `recorded`(g, y),
// the same made of recorded functions, where that is to be differentiated again.
template <typename Recorded>
Tensor mapped_by_result(Unary function, Binary gradient_op, const Tensor& a, const char* name,
                        Recorded recorded) {
  Tensor result = kernels::unary(function, a, name);
  const Saved y = Saved::result(result);
  return mapped(a, std::move(result), name, [=](const Tensor& gradient) {
    if (grad_enabled()) return recorded(gradient, y.get(name));
    return kernels::binary(gradient_op, gradient, y.get(name), name);
  });
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

Tensor exp(const Tensor& a) {
  return mapped_by_result(Unary::kExp, Binary::kMul, a, "exp",
                          [](const Tensor& g, const Tensor& y) { return g * y; });
}

Tensor log(const Tensor& a) {
  Tensor result = kernels::unary(Unary::kLog, a, "log");
  const Saved x(a);
  return mapped(a, std::move(result), "log",
                [=](const Tensor& gradient) { return div(gradient, x.get("log")); });
}

Tensor sqrt(const Tensor& a) {
  return mapped_by_result(Unary::kSqrt, Binary::kSqrtGrad, a, "sqrt",
                          [](const Tensor& g, const Tensor& y) { return g / (y * 2.0); });
}

Tensor tanh(const Tensor& a) {
  return mapped_by_result(Unary::kTanh, Binary::kTanhGrad, a, "tanh",
                          [](const Tensor& g, const Tensor& y) { return g * (1.0 - y * y); });
}

Tensor sigmoid(const Tensor& a) {
  return mapped_by_result(Unary::kSigmoid, Binary::kSigmoidGrad, a, "sigmoid",
                          [](const Tensor& g, const Tensor& y) { return g * y * (1.0 - y); });
}

Tensor relu(const Tensor& a) {
  return mapped_by_result(
      Unary::kRelu, Binary::kReluGrad, a, "relu",
      [](const Tensor& g, const Tensor& y) { return masked_fill(g, y <= 0.0, 0.0); });
}

Tensor operator+(const Tensor& a, double b) {
  return add(a, autograd::operand(b, a));
}
Tensor operator-(const Tensor& a, double b) {
  return sub(a, autograd::operand(b, a));
}
Tensor operator*(const Tensor& a, double b) {
  return mul(a, autograd::operand(b, a));
}
Tensor operator/(const Tensor& a, double b) {
  return div(a, autograd::operand(b, a));
}
Tensor operator-(double a, const Tensor& b) {
  return sub(autograd::operand(a, b), b);
}
Tensor operator/(double a, const Tensor& b) {
  return div(autograd::operand(a, b), b);
}

}  // namespace hvd
