#include "horovod_cpp/nn/layers/normalization.h"

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/checks.h"
#include "horovod_cpp/nn/option_text.h"

namespace hvd {
namespace nn {

LayerNorm::LayerNorm(Shape normalized_shape, double eps, bool elementwise_affine)
    : normalized_shape_(std::move(normalized_shape)), eps_(eps) {
  check_eps("LayerNorm", eps);
  check_positive("LayerNorm", "axes of normalized_shape",
                 static_cast<std::int64_t>(normalized_shape_.size()));
  for (const std::int64_t extent : normalized_shape_) {
    check_positive("LayerNorm", "normalized_shape", extent);
  }
  if (!elementwise_affine) return;
  weight = register_parameter("weight", Tensor::ones(normalized_shape_));
  bias = register_parameter("bias", Tensor::zeros(normalized_shape_));
}

LayerNorm::LayerNorm(std::int64_t features, double eps, bool elementwise_affine)
    : LayerNorm(Shape{features}, eps, elementwise_affine) {}

Tensor LayerNorm::forward(const Tensor& input) {
  return layer_norm(input, normalized_shape_, weight, bias, eps_);
}

std::string LayerNorm::extra_repr() const {
  return text_of(normalized_shape_) + ", eps=" + text_of(eps_) +
         ", elementwise_affine=" + text_of(weight.defined());
}

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps, bool affine)
    : num_groups_(num_groups), num_channels_(num_channels), eps_(eps) {
  check_eps("GroupNorm", eps);
  check_positive("GroupNorm", "num_groups", num_groups);
  check_positive("GroupNorm", "num_channels", num_channels);
  if (num_channels % num_groups != 0) {
    throw InvalidArgumentError("GroupNorm: num_channels=" + std::to_string(num_channels) +
                               " do not divide into num_groups=" + std::to_string(num_groups));
  }
  if (!affine) return;
  weight = register_parameter("weight", Tensor::ones({num_channels}));
  bias = register_parameter("bias", Tensor::zeros({num_channels}));
}

Tensor GroupNorm::forward(const Tensor& input) {
  if (input.dim() < 2 || input.size(1) != num_channels_) {
    throw InvalidArgumentError("input " + to_string(input.shape()) + " for num_channels " +
                               std::to_string(num_channels_));
  }
  return group_norm(input, num_groups_, weight, bias, eps_);
}

std::string GroupNorm::extra_repr() const {
  return std::to_string(num_groups_) + ", " + std::to_string(num_channels_) +
         ", eps=" + text_of(eps_) + ", affine=" + text_of(weight.defined());
}

}  // namespace nn
}  // namespace hvd
