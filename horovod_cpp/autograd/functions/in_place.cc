// The members of Tensor that write into it. A recorded one gives the tensor a new place in the
// graph; what came before keeps the old one. That is right as long as nothing else sees the memory:
// no view whose place would have to change too, no value that another operation's backward() needs.
#include <cstdint>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd {
namespace {

using autograd::requires_grad;
using autograd::Saved;

// Whether the write is to be recorded; throws where that, or the write itself, cannot be done.
bool records_in_place(const Tensor& tensor, const Tensor& other, const char* function) {
  refuse_expanded(tensor, function);
  const auto fail = [&](const char* why) {
    throw InvalidArgumentError(function, ": the tensor (shape ", tensor.shape(), ") ", why);
  };
  if (!autograd::should_record({&tensor, &other})) return false;
  if (tensor.is_leaf() && requires_grad(tensor)) {
    fail("is a leaf that requires grad; use a NoGradGuard, no_grad() in Python");
  }
  if (!is_floating(tensor.dtype())) fail("is of a dtype that has no gradient");
  if (impl_of(tensor).storage.use_count() != 1) {
    fail(
        "shares its memory with a view or with a value that backward() needs, so that writing in "
        "place cannot be recorded; use the function that gives a new tensor, or clone()");
  }
  return true;
}

// `of_tensor` and `of_other` give the gradients of what the tensor was and of the other one, the
// latter in the tensor's shape.
template <typename OfTensor, typename OfOther>
void rebase(Tensor& tensor, const Tensor& other, const char* name, OfTensor of_tensor,
            OfOther of_other) {
  autograd::recorded(
      tensor, name, {&tensor, &other}, of_tensor,
      [of_other, shape = other.defined() ? other.shape() : Shape()](const Tensor& gradient) {
        return autograd::sum_to(of_other(gradient), shape);
      });
}

Tensor nothing(const Tensor&) {
  return {};
}

Tensor unchanged(const Tensor& gradient) {
  return gradient;
}

// What the tensor was, and where in the graph, for the gradient of `other`.
Saved old_value(const Tensor& tensor, const Tensor& other) {
  if (!requires_grad(other)) return {};
  Tensor copy = kernels::clone(tensor);
  copy.record() = tensor.record();
  return Saved(copy);
}

// `other`, or a copy if elements of `target` would be written before the same memory is read.
Tensor readable_while_written(const Tensor& target, const Tensor& other) {
  if (target.device() != other.device()) return other;
  const bool same_elements = target.address() == other.address() &&
                             target.dtype() == other.dtype() && target.shape() == other.shape() &&
                             target.strides() == other.strides();
  return same_elements ? other : kernels::apart_from(target, other);
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& source) {
  const bool recorded = records_in_place(*this, source, "copy_");
  kernels::copy_into(*this, readable_while_written(*this, source));
  if (recorded) {
    rebase(*this, source, "copy_", nothing,
           [dtype = source.dtype()](const Tensor& gradient) { return gradient.to(dtype); });
  }
  return *this;
}

Tensor& Tensor::fill_(double value) {
  const bool recorded = records_in_place(*this, {}, "fill_");
  kernels::fill(*this, value);
  if (recorded) rebase(*this, {}, "fill_", nothing, nothing);
  return *this;
}

Tensor& Tensor::zero_() {
  const bool recorded = records_in_place(*this, {}, "zero_");
  kernels::fill(*this, 0.0);
  if (recorded) rebase(*this, {}, "zero_", nothing, nothing);
  return *this;
}

Tensor& Tensor::add_(const Tensor& other, double alpha) {
  const bool recorded = records_in_place(*this, other, "add_");
  kernels::add_into(*this, readable_while_written(*this, other), alpha);
  if (recorded) {
    rebase(*this, other, "add_", unchanged,
           [alpha](const Tensor& gradient) { return alpha == 1.0 ? gradient : gradient * alpha; });
  }
  return *this;
}

Tensor& Tensor::mul_(double factor) {
  if (!is_floating(dtype())) {  // exact
    require_arithmetic(dtype(), "mul_");
    return mul_(autograd::operand(factor, *this));
  }
  const bool recorded = records_in_place(*this, {}, "mul_");
  kernels::scale(*this, factor);
  if (recorded) {
    rebase(
        *this, {}, "mul_", [factor](const Tensor& gradient) { return gradient * factor; }, nothing);
  }
  return *this;
}

Tensor& Tensor::mul_(const Tensor& other) {
  if (other.is(*this)) return mul_(other.clone());
  const bool recorded = records_in_place(*this, other, "mul_");
  const Saved old = recorded ? old_value(*this, other) : Saved();
  kernels::copy_into(*this, kernels::binary(kernels::Binary::kMul, *this, other, "mul_"));
  if (recorded) {
    rebase(
        *this, other, "mul_",
        [by = Saved(other)](const Tensor& gradient) { return gradient * by.get("mul_"); },
        [old](const Tensor& gradient) { return gradient * old.get("mul_"); });
  }
  return *this;
}

Tensor& Tensor::div_(const Tensor& other) {
  if (other.is(*this)) return div_(other.clone());
  const bool recorded = records_in_place(*this, other, "div_");
  const Saved old = recorded ? old_value(*this, other) : Saved();
  kernels::copy_into(*this, kernels::binary(kernels::Binary::kDiv, *this, other, "div_"));
  if (recorded) {
    const Saved by(other);
    rebase(
        *this, other, "div_", [by](const Tensor& gradient) { return gradient / by.get("div_"); },
        [by, old](const Tensor& gradient) {
          const Tensor divisor = by.get("div_");
          return neg(gradient * old.get("div_") / (divisor * divisor));
        });
  }
  return *this;
}

}  // namespace hvd
