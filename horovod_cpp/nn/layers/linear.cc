#include "horovod_cpp/nn/layers/linear.h"

#include "horovod_cpp/nn/checks.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/option_text.h"

namespace hvd {
namespace nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias) {
  check_positive("Linear", "in_features", in_features);
  check_positive("Linear", "out_features", out_features);
  weight = register_parameter("weight", Tensor::empty({out_features, in_features}));
  if (with_bias) bias = register_parameter("bias", Tensor::empty({out_features}));
  init::layer_default_(weight, bias);
}

Tensor Linear::forward(const Tensor& input) {
  return functional::linear(input, weight, bias);
}

std::string Linear::extra_repr() const {
  return "in_features=" + std::to_string(weight.size(1)) +
         ", out_features=" + std::to_string(weight.size(0)) + ", bias=" + text_of(bias.defined());
}

}  // namespace nn
}  // namespace hvd
