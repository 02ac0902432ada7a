#include <cmath>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise.h"
#include "horovod_cpp/tensor/kernels/reduce.h"

namespace hvd {
namespace {

using autograd::edge_to;
using autograd::Saved;
using autograd::should_record;
using kernels::Binary;
using kernels::Unary;

Tensor multiply(const Tensor& a, const Tensor& b) {
  return kernels::binary(Binary::kMul, a, b, "backward");
}

// Records a combination of two broadcast operands. `left` and `right` give the gradient of each in
// the result's shape.
template <typename Left, typename Right>
Tensor combined(const Tensor& a, const Tensor& b, Tensor result, const char* name, Left left,
                Right right) {
  if (!should_record({&a, &b})) return result;
  return autograd::record(
      std::move(result), name, {edge_to(a), edge_to(b)},
      [=, a_shape = a.shape(), b_shape = b.shape(), a_wanted = autograd::requires_grad(a),
       b_wanted = autograd::requires_grad(b)](const Tensor& gradient) {
        std::vector<Tensor> gradients(2);
        if (a_wanted) gradients[0] = kernels::sum_to(left(gradient), a_shape);
        if (b_wanted) gradients[1] = kernels::sum_to(right(gradient), b_shape);
        return gradients;
      });
}

// Saves `value` only if the gradient of `other` will need it.
Saved saved_for(const Tensor& other, const Tensor& value) {
  return autograd::requires_grad(other) ? Saved(value) : Saved();
}

template <typename Function>
Tensor mapped(const Tensor& a, Tensor result, const char* name, Function backward) {
  if (!should_record({&a})) return result;
  return autograd::record(std::move(result), name, {edge_to(a)},
                          [backward = std::move(backward)](const Tensor& gradient) {
                            return std::vector<Tensor>{backward(gradient)};
                          });
}

// A function whose gradient follows from its result: g * f'(x) = op(g, y).
Tensor mapped_by_result(Unary function, Binary gradient_op, const Tensor& a, const char* name) {
  Tensor result = kernels::unary(function, a, name);
  const Saved y(result);
  return mapped(a, std::move(result), name, [=](const Tensor& gradient) {
    return kernels::binary(gradient_op, gradient, y.get(name), name);
  });
}

// A number as an operand; refuses to lose its fraction.
Tensor operand(double value, const Tensor& other) {
  require_arithmetic(other.dtype(), "an operation with a number");
  if (!is_floating(other.dtype()) && value != std::trunc(value)) {
    throw InvalidArgumentError("the number " + std::to_string(value) + " is not a " +
                               std::string(name_of(other.dtype())));
  }
  return Tensor::scalar(value, other.dtype());
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  const auto same = [](const Tensor& gradient) { return gradient; };
  return combined(a, b, kernels::binary(Binary::kAdd, a, b, "add"), "add", same, same);
}

Tensor sub(const Tensor& a, const Tensor& b) {
  return combined(
      a, b, kernels::binary(Binary::kSub, a, b, "sub"), "sub",
      [](const Tensor& gradient) { return gradient; },
      [](const Tensor& gradient) { return kernels::unary(Unary::kNeg, gradient, "sub"); });
}

Tensor mul(const Tensor& a, const Tensor& b) {
  Tensor result = kernels::binary(Binary::kMul, a, b, "mul");
  const Saved left = saved_for(b, a);
  const Saved right = saved_for(a, b);
  return combined(
      a, b, std::move(result), "mul",
      [=](const Tensor& gradient) { return multiply(gradient, right.get("mul")); },
      [=](const Tensor& gradient) { return multiply(gradient, left.get("mul")); });
}

Tensor div(const Tensor& a, const Tensor& b) {
  Tensor result = kernels::binary(Binary::kDiv, a, b, "div");
  const Saved divisor(b);
  const Saved quotient = saved_for(b, result);
  return combined(
      a, b, std::move(result), "div",
      [=](const Tensor& gradient) {
        return kernels::binary(Binary::kDiv, gradient, divisor.get("div"), "div");
      },
      [=](const Tensor& gradient) {  // -g a / b^2 = -(g / b) (a / b)
        const Tensor scaled = kernels::binary(Binary::kDiv, gradient, divisor.get("div"), "div");
        return kernels::unary(Unary::kNeg, multiply(scaled, quotient.get("div")), "div");
      });
}

Tensor neg(const Tensor& a) {
  return mapped(a, kernels::unary(Unary::kNeg, a, "neg"), "neg", [](const Tensor& gradient) {
    return kernels::unary(Unary::kNeg, gradient, "neg");
  });
}

Tensor pow(const Tensor& a, double exponent) {
  Tensor result = kernels::pow(a, exponent);
  const Saved x(a);
  return mapped(a, std::move(result), "pow", [=](const Tensor& gradient) {
    if (exponent == 0.0) return Tensor::zeros(gradient.shape(), gradient.dtype());
    Tensor slope = kernels::pow(x.get("pow"), exponent - 1.0);
    kernels::scale(slope, exponent);
    return multiply(gradient, slope);
  });
}

Tensor exp(const Tensor& a) {
  return mapped_by_result(Unary::kExp, Binary::kMul, a, "exp");
}

Tensor log(const Tensor& a) {
  Tensor result = kernels::unary(Unary::kLog, a, "log");
  const Saved x(a);
  return mapped(a, std::move(result), "log", [=](const Tensor& gradient) {
    return kernels::binary(Binary::kDiv, gradient, x.get("log"), "log");
  });
}

Tensor sqrt(const Tensor& a) {
  return mapped_by_result(Unary::kSqrt, Binary::kSqrtGrad, a, "sqrt");
}

Tensor tanh(const Tensor& a) {
  return mapped_by_result(Unary::kTanh, Binary::kTanhGrad, a, "tanh");
}

Tensor sigmoid(const Tensor& a) {
  return mapped_by_result(Unary::kSigmoid, Binary::kSigmoidGrad, a, "sigmoid");
}

Tensor relu(const Tensor& a) {
  return mapped_by_result(Unary::kRelu, Binary::kReluGrad, a, "relu");
}

Tensor operator+(const Tensor& a, double b) {
  return add(a, operand(b, a));
}
Tensor operator-(const Tensor& a, double b) {
  return sub(a, operand(b, a));
}
Tensor operator*(const Tensor& a, double b) {
  return mul(a, operand(b, a));
}
Tensor operator/(const Tensor& a, double b) {
  return div(a, operand(b, a));
}
Tensor operator-(double a, const Tensor& b) {
  return sub(operand(a, b), b);
}
Tensor operator/(double a, const Tensor& b) {
  return div(operand(a, b), b);
}

}  // namespace hvd
