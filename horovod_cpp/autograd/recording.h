#pragma once

#include <utility>
#include <vector>

#include "horovod_cpp/autograd/node.h"

// How the functions of this folder record themselves: their gradients are made of recorded
// functions, so that they can be differentiated as often as one likes.
namespace hvd::autograd {

// Adds up what broadcasting from `shape` to a's shape repeated.
Tensor sum_to(const Tensor& a, const Shape& shape);

// A number as an operand; throws InvalidArgumentError if `other`'s dtype would lose its fraction or
// does not reach to it.
Tensor operand(double value, const Tensor& other);
// A tensor in the place of such a number, converted to `other`'s dtype; throws likewise where all
// fractions would be lost.
Tensor operand(const Tensor& value, const Tensor& other);

// Records a function of one operand. `backward` gives the operand's gradient, in its shape.
template <typename Function>
Tensor mapped(const Tensor& a, Tensor result, const char* name, Function backward) {
  if (!should_record({&a}) || !is_floating(result.dtype())) return result;
  return record(
      std::move(result), name, {edge_to(a)},
      [backward = std::move(backward)](const Tensor& gradient) {
        return std::vector<Tensor>{backward(gradient)};
      },
      Order::kAny);
}

// Records a combination of two broadcast operands. `left` and `right` give the gradient of each in
// the result's shape.
template <typename Left, typename Right>
Tensor combined(const Tensor& a, const Tensor& b, Tensor result, const char* name, Left left,
                Right right) {
  if (!should_record({&a, &b})) return result;
  return record(
      std::move(result), name, {edge_to(a), edge_to(b)},
      [=, a_shape = a.shape(), b_shape = b.shape(), a_wanted = requires_grad(a),
       b_wanted = requires_grad(b)](const Tensor& gradient) {
        std::vector<Tensor> gradients(2);
        if (a_wanted) gradients[0] = sum_to(left(gradient), a_shape);
        if (b_wanted) gradients[1] = sum_to(right(gradient), b_shape);
        return gradients;
      },
      Order::kAny);
}

// `value`, which was computed from what `input` leads to, as a function of it: for a Backward that
// saved a value and not its operand. `backward`(gradient, value) gives the operand's gradient.
template <typename Function>
Tensor function_of(const Edge& input, const Tensor& value, const char* name, Function backward) {
  Tensor result = value.detach();
  const Saved y = Saved::result(result);
  return record(
      std::move(result), name, {input},
      [=](const Tensor& gradient) { return std::vector<Tensor>{backward(gradient, y.get(name))}; },
      Order::kAny);
}

// Saves `value` only if the gradient of `other` will need it.
inline Saved saved_for(const Tensor& other, const Tensor& value) {
  return requires_grad(other) ? Saved(value) : Saved();
}

}  // namespace hvd::autograd
