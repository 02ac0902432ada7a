#pragma once

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"

// How the functions of this folder record themselves: their gradients are made of recorded
// functions, so that they can be differentiated any number of times.
namespace hvd::autograd {

// Adds up what broadcasting from `shape` to a's shape repeated.
Tensor sum_to(const Tensor& a, const Shape& shape);

// A number as an operand; throws InvalidArgumentError if `other`'s dtype would lose its fraction or
// does not reach to it.
Tensor operand(double value, const Tensor& other);
// A tensor in the place of such a number, converted to `other`'s dtype; throws likewise where all
// fractions would be lost.
Tensor operand(const Tensor& value, const Tensor& other);

// Records a function of several operands, undefined ones too. For each operand one of `of` gives
// its gradient, which is asked for only where it is wanted.
template <typename... Of>
Tensor recorded(Tensor result, const char* name,
                const std::array<const Tensor*, sizeof...(Of)>& operands, Of... of) {
  std::vector<Edge> edges;
  std::array<bool, sizeof...(Of)> wanted{};
  bool any = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    wanted[i] = should_record({operands[i]});
    any = any || wanted[i];
  }
  if (!any) return result;
  edges.reserve(operands.size());
  for (const Tensor* operand : operands) edges.push_back(edge_to(*operand));
  return record(
      std::move(result), name, std::move(edges),
      [wanted, of = std::tuple(std::move(of)...)](const Tensor& gradient) {
        std::vector<Tensor> gradients(sizeof...(Of));
        const auto fill = [&]<std::size_t... I>(std::index_sequence<I...>) {
          ((wanted[I] ? static_cast<void>(gradients[I] = std::get<I>(of)(gradient)) : void()), ...);
        };
        fill(std::index_sequence_for<Of...>());
        return gradients;
      },
      Order::kAny);
}

// Records a function of one operand, unless the result is the operand itself. `backward` gives the
// operand's gradient, in its shape.
template <typename Function>
Tensor mapped(const Tensor& a, Tensor result, const char* name, Function backward) {
  if (result.is(a) || !is_floating(result.dtype())) return result;
  return recorded(std::move(result), name, {&a}, std::move(backward));
}

// Records a combination of two broadcast operands. `left` and `right` give the gradient of each in
// the result's shape.
template <typename Left, typename Right>
Tensor combined(const Tensor& a, const Tensor& b, Tensor result, const char* name, Left left,
                Right right) {
  if (!should_record({&a, &b})) return result;  // before the shapes are copied
  return recorded(
      std::move(result), name, {&a, &b},
      [=, shape = a.shape()](const Tensor& gradient) { return sum_to(left(gradient), shape); },
      [=, shape = b.shape()](const Tensor& gradient) { return sum_to(right(gradient), shape); });
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

// -- how functions find the dtype they compute in; modes.h has the rules. Undefined tensors pass.

inline bool is_half(const Tensor& a) {
  return a.defined() && hvd::is_half(a.dtype());
}

// Tensor::to that keeps the layout, and gradients of the layout they come in.
Tensor cast(const Tensor& a, DType dtype);
// Half types as float32.
Tensor widened(const Tensor& a);
// The operand of a product: cast if this is a region.
Tensor lowered(const Tensor& a);

// Whether an operation that belongs in float32 has to cast this operand first.
inline bool raises(const Tensor& a) {
  return is_autocast_enabled() && is_half(a);
}

// Whether an operation of several operands computes in float32 in the place of a half type: in a
// region if one of them is half; elsewhere if all are of one half dtype.
bool computes_in_float32(std::initializer_list<const Tensor*> operands);

// Whether operands of different floating dtypes are to meet in the wider one.
bool mixes(const Tensor& a, const Tensor& b);
DType wider(DType a, DType b);

template <typename Function>
Tensor mixed(const Tensor& a, const Tensor& b, Function function) {
  const DType dtype = wider(a.dtype(), b.dtype());
  return function(cast(a, dtype), cast(b, dtype));
}

// As they are, except those that mix.
std::vector<Tensor> in_one_dtype(std::vector<Tensor> parts);

// A float32 result of a half operand, rounded back; in a region it stays float32.
Tensor rounded_back(const Tensor& result, const Tensor& operand);

}  // namespace hvd::autograd
