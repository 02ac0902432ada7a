#include "horovod_cpp/nn/dropout.h"

#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions.h"

namespace hvd {
namespace nn {

Dropout::Dropout(double p) : p_(p) {
  if (!(p >= 0 && p <= 1)) {
    throw InvalidArgumentError("Dropout: p=" + std::to_string(p) + ": expected 0 <= p <= 1");
  }
}

Tensor Dropout::forward(const Tensor& input) {
  return dropout(input, p_, is_training());
}

}  // namespace nn
}  // namespace hvd
