#include "horovod_cpp/nn/losses/loss.h"

#include <type_traits>

#include "core/base/status.h"

namespace hvd::nn {
namespace {

// A function of losses.h with the arguments that follow input and target.
template <typename... Options>
auto with(Tensor (*loss)(const Tensor&, const Tensor&, Options...),
          std::type_identity_t<std::decay_t<Options>>... options) {
  return [=](const Tensor& input, const Tensor& target) { return loss(input, target, options...); };
}

}  // namespace

Tensor Loss::forward(const Tensor&) {
  throw InvalidArgumentError("a loss takes an input and a target");
}

Tensor Loss::operator()(const Tensor& input, const Tensor& target) {
  return call(input, [&](const Tensor& given) { return forward(given, target); });
}

MSELoss::MSELoss(LossReduction reduction) : FunctionLoss(with(mse_loss, reduction)) {}

L1Loss::L1Loss(LossReduction reduction) : FunctionLoss(with(l1_loss, reduction)) {}

HuberLoss::HuberLoss(LossReduction reduction, double delta)
    : FunctionLoss(with(huber_loss, reduction, delta)) {}

SmoothL1Loss::SmoothL1Loss(LossReduction reduction, double beta)
    : FunctionLoss(with(smooth_l1_loss, reduction, beta)) {}

CrossEntropyLoss::CrossEntropyLoss(const ClassLossOptions& options)
    : FunctionLoss(with(cross_entropy, options)) {
  if (options.weight.defined()) register_buffer("weight", options.weight);
}

NLLLoss::NLLLoss(const ClassLossOptions& options) : FunctionLoss(with(nll_loss, options)) {
  if (options.weight.defined()) register_buffer("weight", options.weight);
}

BCELoss::BCELoss(const Tensor& weight, LossReduction reduction)
    : FunctionLoss(with(binary_cross_entropy, weight, reduction)) {
  if (weight.defined()) register_buffer("weight", weight);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(const Tensor& weight, LossReduction reduction,
                                     const Tensor& pos_weight)
    : FunctionLoss(with(binary_cross_entropy_with_logits, weight, reduction, pos_weight)) {
  if (weight.defined()) register_buffer("weight", weight);
  if (pos_weight.defined()) register_buffer("pos_weight", pos_weight);
}

KLDivLoss::KLDivLoss(LossReduction reduction, bool log_target)
    : FunctionLoss(with(kl_div, reduction, log_target)) {}

}  // namespace hvd::nn
