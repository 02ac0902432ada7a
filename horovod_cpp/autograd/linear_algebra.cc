#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/kernels/elementwise.h"
#include "horovod_cpp/tensor/kernels/matmul.h"
#include "horovod_cpp/tensor/kernels/reduce.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {

using autograd::edge_to;
using autograd::requires_grad;
using autograd::Saved;

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor result = kernels::matmul(a, false, b, false);
  if (!autograd::should_record({&a, &b})) return result;
  const Saved left = requires_grad(b) ? Saved(a) : Saved();
  const Saved right = requires_grad(a) ? Saved(b) : Saved();
  return autograd::record(
      std::move(result), "matmul", {edge_to(a), edge_to(b)},
      [=, a_wanted = requires_grad(a), b_wanted = requires_grad(b)](const Tensor& gradient) {
        std::vector<Tensor> gradients(2);
        if (a_wanted) gradients[0] = kernels::matmul(gradient, false, right.get("matmul"), true);
        if (b_wanted) gradients[1] = kernels::matmul(left.get("matmul"), true, gradient, false);
        return gradients;
      });
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  Tensor result = kernels::matmul(input, false, weight, true, "linear");
  if (bias.defined()) {
    shapes::require_same_dtype(input, bias, "linear");
    if (bias.shape() != Shape{weight.size(0)}) {
      throw InvalidArgumentError("linear: weight " + to_string(weight.shape()) + " and bias " +
                                 to_string(bias.shape()) + " do not fit");
    }
    kernels::add_into(result, bias, 1.0);
  }
  if (!autograd::should_record({&input, &weight, &bias})) return result;
  const Saved x = requires_grad(weight) ? Saved(input) : Saved();
  const Saved w = requires_grad(input) ? Saved(weight) : Saved();
  return autograd::record(
      std::move(result), "linear", {edge_to(input), edge_to(weight), edge_to(bias)},
      [=, x_wanted = requires_grad(input), w_wanted = requires_grad(weight),
       bias_wanted = requires_grad(bias)](const Tensor& gradient) {
        std::vector<Tensor> gradients(3);
        if (x_wanted) gradients[0] = kernels::matmul(gradient, false, w.get("linear"), false);
        if (w_wanted) gradients[1] = kernels::matmul(gradient, true, x.get("linear"), false);
        if (bias_wanted) gradients[2] = kernels::sum(gradient, {true, false}, false);
        return gradients;
      });
}

}  // namespace hvd
