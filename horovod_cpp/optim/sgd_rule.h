#pragma once

#include <cstdint>

namespace hvd {
namespace optim {

// Stochastic gradient descent as PyTorch defines it (Sutskever, Martens, Dahl, Hinton: "On the
// importance of initialization and momentum in deep learning", ICML 2013, with the learning rate
// outside of the buffer):
//
//   d = grad + weight_decay * param
//   buffer = momentum * buffer + take * d           take = 1 on the first step, else 1 - dampening
//   param -= lr * (nesterov ? d + momentum * buffer : buffer)
template <typename T>
struct SgdRule {
  T lr = 0;
  T momentum = 0;
  T take = 1;
  T weight_decay = 0;
  bool nesterov = false;
};

// Without momentum: the update is d itself. The arrays may not overlap.
template <typename T>
void sgd_update(const SgdRule<T>& rule, std::int64_t count, T* __restrict param,
                const T* __restrict grad) {
  for (std::int64_t i = 0; i < count; ++i) {
    param[i] -= rule.lr * (grad[i] + rule.weight_decay * param[i]);
  }
}

// `buffer` is zero before the first step. The arrays may not overlap.
template <typename T>
void sgd_momentum_update(const SgdRule<T>& rule, std::int64_t count, T* __restrict param,
                         const T* __restrict grad, T* __restrict buffer) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T d = grad[i] + rule.weight_decay * param[i];
    const T moved = rule.momentum * buffer[i] + rule.take * d;
    buffer[i] = moved;
    param[i] -= rule.lr * (rule.nesterov ? d + rule.momentum * moved : moved);
  }
}

}  // namespace optim
}  // namespace hvd
