#include <algorithm>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/matmul/matmul.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::saved_for;

// Both have two axes or more.
Tensor product(const Tensor& a, const Tensor& b) {
  const bool matrices = a.dim() == 2 && b.dim() == 2;
  Tensor result =
      matrices ? kernels::matmul(a, false, b, false) : kernels::batched_matmul(a, b, "matmul");
  return autograd::combined(
      a, b, std::move(result), "matmul",
      [right = saved_for(a, b)](const Tensor& gradient) {
        return product(gradient, right.get("matmul").transpose(-2, -1));
      },
      [left = saved_for(b, a)](const Tensor& gradient) {
        return product(left.get("matmul").transpose(-2, -1), gradient);
      });
}

// Of linear's input 1.
Tensor weight_gradient(const Tensor& gradient, const Tensor& input) {
  const Tensor place = autograd::gradient_place(1);
  if (!place.defined()) return product(gradient.t(), input);
  return kernels::matmul(gradient, true, input, false, "linear", place);
}

// input [batch, in]
Tensor linear_rows(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  Tensor result = kernels::matmul(input, false, weight, true, "linear");
  if (bias.defined()) kernels::add_into(result, bias, 1.0);
  return autograd::recorded(
      std::move(result), "linear", {&input, &weight, &bias},
      [w = saved_for(input, weight)](const Tensor& gradient) {
        return product(gradient, w.get("linear"));
      },
      [x = saved_for(weight, input)](const Tensor& gradient) {
        return weight_gradient(gradient, x.get("linear"));
      },
      [](const Tensor& gradient) { return sum(gradient, {0}); });
}

}  // namespace

Tensor matmul(const Tensor& left, const Tensor& right) {
  const Tensor a = autograd::lowered(left);
  const Tensor b = autograd::lowered(right);
  if (a.dim() == 0 || b.dim() == 0) {
    throw InvalidArgumentError("matmul: shapes ", a.shape(), " and ", b.shape(),
                               "; a scalar has no axis to sum over");
  }
  if (a.dim() > 1 && b.dim() > 1) return product(a, b);
  if (a.shape().back() != b.size(b.dim() == 1 ? 0 : -2)) {
    throw InvalidArgumentError("matmul: shapes ", a.shape(), " and ", b.shape(), " do not fit");
  }
  Tensor result = product(a.dim() == 1 ? a.unsqueeze(0) : a, b.dim() == 1 ? b.unsqueeze(1) : b);
  if (b.dim() == 1) result = result.squeeze(-1);
  return a.dim() == 1 ? result.squeeze(b.dim() == 1 ? -1 : -2) : result;
}

Tensor outer(const Tensor& a, const Tensor& b) {
  shapes::require_dim(a, 1, "outer", "the left side");
  shapes::require_dim(b, 1, "outer", "the right side");
  return mul(a.unsqueeze(1), b);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  shapes::require_dim(a, 1, "dot", "the left side");
  shapes::require_dim(b, 1, "dot", "the right side");
  if (a.shape() != b.shape()) {
    throw InvalidArgumentError("dot: shapes ", a.shape(), " and ", b.shape(), " differ");
  }
  const Tensor products = mul(a, b);
  const Tensor total = sum(products);
  return is_floating(products.dtype()) ? total : total.to(products.dtype());
}

Tensor linear(const Tensor& given, const Tensor& given_weight, const Tensor& given_bias) {
  const Tensor input = autograd::lowered(given);
  const Tensor weight = autograd::lowered(given_weight);
  const Tensor bias = autograd::lowered(given_bias);
  if (bias.defined()) {
    shapes::require_same_dtype(input, bias, "linear");
    shapes::require_dim(weight, 2, "linear", "the weight [out, in]");
    if (bias.shape() != Shape{weight.size(0)}) {
      throw InvalidArgumentError("linear: weight ", weight.shape(), " and bias ", bias.shape(),
                                 " do not fit");
    }
  }
  if (input.dim() == 2) return linear_rows(input, weight, bias);
  if (input.dim() == 0) {
    throw InvalidArgumentError("linear: the input is a scalar, weight ", weight.shape());
  }
  if (weight.dim() != 2 || input.size(-1) != weight.size(1)) {
    throw InvalidArgumentError("linear: shapes ", input.shape(), " and ", weight.shape(),
                               " do not fit");
  }
  Shape shape = input.shape();
  const std::int64_t rows = input.numel() / std::max<std::int64_t>(shape.back(), 1);
  shape.back() = weight.size(0);
  return linear_rows(input.reshape({rows, input.size(-1)}), weight, bias).reshape(shape);
}

}  // namespace hvd
