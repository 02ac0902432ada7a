#pragma once

#include <cstdint>

#include "horovod_cpp/tensor/tensor.h"

// Differentiable losses with PyTorch's formulas. Half types are computed in float32 and rounded,
// unless autocast is enabled. Errors are InvalidArgumentError
// naming the loss and the shapes or the value that does not fit.
namespace hvd {

// What happens to the losses of the elements (or examples): they stay, or become their mean or sum.
// kBatchMean, the sum divided by input.size(0), is for kl_div alone.
enum class LossReduction { kNone, kMean, kSum, kBatchMean };

// -- element by element: input and target have one shape. Gradients flow to both.

// (input - target)^2
Tensor mse_loss(const Tensor& input, const Tensor& target,
                LossReduction reduction = LossReduction::kMean);
// |input - target|; its slope at 0 is 0.
Tensor l1_loss(const Tensor& input, const Tensor& target,
               LossReduction reduction = LossReduction::kMean);
// With d = |input - target|: d^2 / 2 where d < delta, else delta (d - delta / 2); delta > 0.
Tensor huber_loss(const Tensor& input, const Tensor& target,
                  LossReduction reduction = LossReduction::kMean, double delta = 1.0);
// d^2 / (2 beta) where d < beta, else d - beta / 2; beta >= 0.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      LossReduction reduction = LossReduction::kMean, double beta = 1.0);
// -(t log x + (1 - t) log(1 - x)), logarithms clamped at -100; x within [0, 1]. `weight`, if
// defined, broadcasts to the input's shape and multiplies.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                            LossReduction reduction = LossReduction::kMean);
// The same of sigmoid(input), without overflow. `pos_weight`, if defined, broadcasts and multiplies
// the first term; no gradient flows to it, and one that requires grad throws.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight = {},
                                        LossReduction reduction = LossReduction::kMean,
                                        const Tensor& pos_weight = {});
// target (log target - input), 0 where target is 0; with log_target, exp(target) (target - input).
Tensor kl_div(const Tensor& input, const Tensor& target,
              LossReduction reduction = LossReduction::kMean, bool log_target = false);

// -- classes: input [n, classes, ...] (or [classes]), targets int64 without the axis of classes

struct ClassLossOptions {
  // [classes]: factor of each class; undefined = 1. Where targets are classes, no gradient flows to
  // it, and one that requires grad throws.
  Tensor weight = {};
  std::int64_t ignore_index = -100;  // examples with this target count nowhere
  LossReduction reduction =
      LossReduction::kMean;      // the mean is weighted: sum of losses / sum of weights
  double label_smoothing = 0.0;  // cross_entropy only; within [0, 1]
};

// -weight[t] * log_probability[t]. Throws InvalidArgumentError naming a target that is not a class.
Tensor nll_loss(const Tensor& log_probability, const Tensor& targets,
                const ClassLossOptions& options = {});
// nll_loss(log_softmax(logits)). Smoothing mixes the target with the uniform distribution (Szegedy
// et al.: "Rethinking the Inception architecture", CVPR 2016). `targets` may also be probabilities,
// of the logits' shape and dtype; ignore_index means nothing then and the mean is over examples.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const ClassLossOptions& options = {});

}  // namespace hvd
