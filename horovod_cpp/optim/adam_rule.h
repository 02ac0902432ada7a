#pragma once

#include <cmath>
#include <cstdint>

namespace hvd {
namespace optim {

// Adam (Kingma, Ba: "Adam: a method for stochastic optimization", ICLR 2015) with PyTorch's place
// for eps, and weight decay added to the gradient:
//
//   d = grad + weight_decay * param
//   mean = beta1 * mean + (1 - beta1) * d
//   square = beta2 * square + (1 - beta2) * d * d
//   param -= step_size * mean / (sqrt(square) / root_correction + eps)
template <typename T>
struct AdamRule {
  T beta1 = 0;
  T beta2 = 0;
  T take1 = 1;            // 1 - beta1
  T take2 = 1;            // 1 - beta2
  T step_size = 0;        // lr / (1 - beta1^steps)
  T root_correction = 1;  // sqrt(1 - beta2^steps)
  T eps = 0;
  T weight_decay = 0;
};

// `mean` and `square` are zero before the first step. The arrays may not overlap.
template <typename T>
void adam_update(const AdamRule<T>& rule, std::int64_t count, T* __restrict param,
                 const T* __restrict grad, T* __restrict mean, T* __restrict square) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T d = grad[i] + rule.weight_decay * param[i];
    mean[i] = rule.beta1 * mean[i] + rule.take1 * d;
    square[i] = rule.beta2 * square[i] + rule.take2 * (d * d);
    param[i] -= rule.step_size * mean[i] / (std::sqrt(square[i]) / rule.root_correction + rule.eps);
  }
}

}  // namespace optim
}  // namespace hvd
