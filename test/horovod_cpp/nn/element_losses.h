#pragma once

#include <vector>

#include "horovod_cpp/nn/layers/layers.h"

namespace hvd {
namespace nn {

using ElementLoss = Tensor (*)(const Tensor& input, const Tensor& target, LossReduction how);

// Losses of equal float64 shapes [n, 4] that take any input, and targets within (0, 1).
inline std::vector<ElementLoss> element_losses() {
  namespace F = functional;
  return {
      [](const Tensor& a, const Tensor& b, LossReduction how) { return F::mse_loss(a, b, how); },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::l1_loss(a * a, b, how);  // of a alone, the second derivative is zero
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::huber_loss(a, b, how, 0.3);
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::smooth_l1_loss(a, b, how, 0.3);
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::binary_cross_entropy_with_logits(a, b, {}, how,
                                                   Tensor::full({4}, 2.0, DType::kF64));
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::binary_cross_entropy(sigmoid(a), b, {}, how);
      },
      [](const Tensor& a, const Tensor& b, LossReduction how) { return F::kl_div(a, b, how); },
      [](const Tensor& a, const Tensor& b, LossReduction how) {
        return F::kl_div(a, b, how, true);
      }};
}

}  // namespace nn
}  // namespace hvd
