#include "horovod_cpp/nn/layers/activation.h"

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/option_text.h"

namespace hvd {
namespace nn {

Tensor ReLU::forward(const Tensor& input) {
  return relu(input);
}

Tensor LeakyReLU::forward(const Tensor& input) {
  return leaky_relu(input, negative_slope_);
}

std::string LeakyReLU::extra_repr() const {
  return "negative_slope=" + text_of(negative_slope_);
}

Tensor GELU::forward(const Tensor& input) {
  return gelu(input, approximate_);
}

std::string GELU::extra_repr() const {
  return std::string("approximate=") +
         (approximate_ == GeluApproximate::kNone ? "'none'" : "'tanh'");
}

Tensor SiLU::forward(const Tensor& input) {
  return silu(input);
}

Tensor Sigmoid::forward(const Tensor& input) {
  return sigmoid(input);
}

Tensor Tanh::forward(const Tensor& input) {
  return tanh(input);
}

Tensor Softmax::forward(const Tensor& input) {
  return softmax(input, dim_);
}

std::string Softmax::extra_repr() const {
  return "dim=" + std::to_string(dim_);
}

Tensor LogSoftmax::forward(const Tensor& input) {
  return log_softmax(input, dim_);
}

std::string LogSoftmax::extra_repr() const {
  return "dim=" + std::to_string(dim_);
}

}  // namespace nn
}  // namespace hvd
