#pragma once

namespace hvd {
namespace optim {

// Adagrad (Duchi, Hazan, Singer: "Adaptive subgradient methods for online learning and stochastic
// optimization", JMLR 2011) as PyTorch defines it:
//
//   d = sign * grad + weight_decay * param
//   sum = sum + d * d
//   param -= step_size * d / (sqrt(sum) + eps)
template <typename T>
struct AdagradRule {
  T sign = 1;       // -1 maximizes
  T step_size = 0;  // lr / (1 + (steps - 1) * lr_decay)
  T eps = 0;
  T weight_decay = 0;
};

}  // namespace optim
}  // namespace hvd
