#include "horovod_cpp/nn/losses/loss.h"

#include "core/base/status.h"

namespace hvd {
namespace nn {

Tensor Loss::forward(const Tensor&) {
  throw InvalidArgumentError("a loss takes an input and a target");
}

Tensor Loss::operator()(const Tensor& input, const Tensor& target) {
  return call(input, [&](const Tensor& given) { return forward(given, target); });
}

Tensor MSELoss::forward(const Tensor& input, const Tensor& target) {
  return mse_loss(input, target, reduction_);
}

Tensor L1Loss::forward(const Tensor& input, const Tensor& target) {
  return l1_loss(input, target, reduction_);
}

Tensor HuberLoss::forward(const Tensor& input, const Tensor& target) {
  return huber_loss(input, target, reduction_, delta_);
}

Tensor SmoothL1Loss::forward(const Tensor& input, const Tensor& target) {
  return smooth_l1_loss(input, target, reduction_, beta_);
}

CrossEntropyLoss::CrossEntropyLoss(const ClassLossOptions& options) : options_(options) {
  if (options.weight.defined()) register_buffer("weight", options.weight);
}

Tensor CrossEntropyLoss::forward(const Tensor& input, const Tensor& target) {
  return cross_entropy(input, target, options_);
}

NLLLoss::NLLLoss(const ClassLossOptions& options) : options_(options) {
  if (options.weight.defined()) register_buffer("weight", options.weight);
}

Tensor NLLLoss::forward(const Tensor& input, const Tensor& target) {
  return nll_loss(input, target, options_);
}

BCELoss::BCELoss(const Tensor& weight, LossReduction reduction)
    : weight_(weight), reduction_(reduction) {
  if (weight.defined()) register_buffer("weight", weight);
}

Tensor BCELoss::forward(const Tensor& input, const Tensor& target) {
  return binary_cross_entropy(input, target, weight_, reduction_);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(const Tensor& weight, LossReduction reduction,
                                     const Tensor& pos_weight)
    : weight_(weight), reduction_(reduction), pos_weight_(pos_weight) {
  if (weight.defined()) register_buffer("weight", weight);
  if (pos_weight.defined()) register_buffer("pos_weight", pos_weight);
}

Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) {
  return binary_cross_entropy_with_logits(input, target, weight_, reduction_, pos_weight_);
}

Tensor KLDivLoss::forward(const Tensor& input, const Tensor& target) {
  return kl_div(input, target, reduction_, log_target_);
}

}  // namespace nn
}  // namespace hvd
