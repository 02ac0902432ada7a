// The members of Tensor that write into it. They are not recorded, so they refuse where a gradient
// would silently be wrong.
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/grad_mode.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/kernels/copy.h"
#include "horovod_cpp/tensor/kernels/elementwise.h"

namespace hvd {
namespace {

void require_unrecorded(const Tensor& tensor, const char* function, const char* role) {
  if (grad_enabled() && autograd::requires_grad(tensor)) {
    throw InvalidArgumentError(std::string(function) + ": " + role +
                               " requires grad, and writing in place is not recorded; use a "
                               "NoGradGuard or detach()");
  }
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& source) {
  require_unrecorded(*this, "copy_", "the tensor");
  require_unrecorded(source, "copy_", "the source");
  kernels::copy_into(*this, source);
  return *this;
}

Tensor& Tensor::fill_(double value) {
  require_unrecorded(*this, "fill_", "the tensor");
  kernels::fill(*this, value);
  return *this;
}

Tensor& Tensor::zero_() {
  require_unrecorded(*this, "zero_", "the tensor");
  kernels::fill(*this, 0.0);
  return *this;
}

Tensor& Tensor::add_(const Tensor& other, double alpha) {
  require_unrecorded(*this, "add_", "the tensor");
  require_unrecorded(other, "add_", "the other tensor");
  kernels::add_into(*this, other, alpha);
  return *this;
}

Tensor& Tensor::mul_(double factor) {
  require_unrecorded(*this, "mul_", "the tensor");
  kernels::scale(*this, factor);
  return *this;
}

}  // namespace hvd
