#include "horovod_cpp/tensor/expanded.h"

#include <string>

#include "core/base/status.h"

namespace hvd {

bool is_expanded(const Tensor& tensor) {
  if (tensor.numel() == 0) return false;
  for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) {
    if (tensor.size(axis) > 1 && tensor.strides()[static_cast<std::size_t>(axis)] == 0) return true;
  }
  return false;
}

void refuse_expanded(const Tensor& tensor, const char* function) {
  if (!is_expanded(tensor)) return;
  throw InvalidArgumentError(std::string(function) + ": the tensor (shape " +
                             to_string(tensor.shape()) +
                             ") is expanded: elements share memory; clone() it first");
}

}  // namespace hvd
