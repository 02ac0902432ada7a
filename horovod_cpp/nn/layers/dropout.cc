#include "horovod_cpp/nn/layers/dropout.h"

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/checks.h"
#include "horovod_cpp/nn/option_text.h"

namespace hvd {
namespace nn {

Dropout::Dropout(double p) : p_(p) {
  check_fraction("Dropout", "p", p);
}

Tensor Dropout::forward(const Tensor& input) {
  return dropout(input, p_, is_training());
}

std::string Dropout::extra_repr() const {
  return "p=" + text_of(p_) + ", inplace=False";
}

}  // namespace nn
}  // namespace hvd
