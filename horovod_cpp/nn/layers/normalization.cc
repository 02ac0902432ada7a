#include "horovod_cpp/nn/layers/normalization.h"

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/nn/options.h"
#include "horovod_cpp/tensor/impl.h"

namespace hvd::nn {

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
    throw InvalidArgumentError("GroupNorm: num_channels=", num_channels,
                               " do not divide into num_groups=", num_groups);
  }
  if (!affine) return;
  weight = register_parameter("weight", Tensor::ones({num_channels}));
  bias = register_parameter("bias", Tensor::zeros({num_channels}));
}

Tensor GroupNorm::forward(const Tensor& input) {
  if (input.dim() < 2 || input.size(1) != num_channels_) {
    throw InvalidArgumentError("input ", input.shape(), " for num_channels ", num_channels_);
  }
  return group_norm(input, num_groups_, weight, bias, eps_);
}

std::string GroupNorm::extra_repr() const {
  return std::to_string(num_groups_) + ", " + std::to_string(num_channels_) +
         ", eps=" + text_of(eps_) + ", affine=" + text_of(weight.defined());
}

using autograd::substitute_for;

BatchNorm::BatchNorm(const char* layer, std::int64_t num_features, const BatchNormOptions& options)
    : num_features_(num_features), options_(options) {
  check_positive(layer, "num_features", num_features);
  check_eps(layer, options.eps);
  if (options.momentum) check_fraction(layer, "momentum", *options.momentum);
  if (options.affine) {
    weight = register_parameter("weight", Tensor::ones({num_features}));
    bias = register_parameter("bias", Tensor::zeros({num_features}));
  }
  if (options.track_running_stats) {
    running_mean = register_buffer("running_mean", Tensor::zeros({num_features}));
    running_var = register_buffer("running_var", Tensor::ones({num_features}));
    num_batches_tracked = register_buffer("num_batches_tracked", Tensor::zeros({}, DType::kI64));
  }
}

void BatchNorm::require_dims(const Tensor& input, std::int64_t least, std::int64_t most) const {
  if (input.dim() >= least && input.dim() <= most) return;
  throw InvalidArgumentError("input ", input.shape(), " for num_features ", num_features_,
                             ": expected ", least,
                             (least == most ? "" : " to " + std::to_string(most)), " axes");
}

Tensor BatchNorm::forward(const Tensor& input) {
  if (input.dim() < 2 || input.size(1) != num_features_) {
    throw InvalidArgumentError("input ", input.shape(), " for num_features ", num_features_);
  }
  const bool learns = is_training() && options_.track_running_stats;
  double momentum = options_.momentum.value_or(0.0);
  if (learns && !options_.momentum)
    momentum = 1.0 / (substitute_for(num_batches_tracked).item() + 1.0);
  Tensor output;
  if (is_training() && training_ != nullptr) {
    output = training_(*this, input, momentum);
  } else {
    output = functional::batch_norm(
        input, substitute_for(running_mean), substitute_for(running_var), weight, bias,
        is_training() || !options_.track_running_stats, momentum, options_.eps);
  }
  if (learns) {
    const Tensor batches = substitute_for(num_batches_tracked);
    ++*batches.data<std::int64_t>();
    bump_version(batches);
  }
  return output;
}

std::string BatchNorm::extra_repr() const {
  return std::to_string(num_features_) + ", eps=" + text_of(options_.eps) +
         ", momentum=" + (options_.momentum ? text_of(*options_.momentum) : "None") +
         ", affine=" + text_of(options_.affine) +
         ", track_running_stats=" + text_of(options_.track_running_stats);
}

}  // namespace hvd::nn
