#pragma once

#include "core/base/dtype.h"

// Update rules of optimizers that devices have too: the formula, and what it does to one element.
// Nothing is contracted into fused multiply-adds, so that all give the same bits.
namespace hvd::engine {

// Stochastic gradient descent as PyTorch defines it (Sutskever, Martens, Dahl, Hinton: "On the
// importance of initialization and momentum in deep learning", ICML 2013, with the learning rate
// outside the buffer):
//
//   d = sign * grad + weight_decay * param
//   buffer = momentum * buffer + take * d           take = 1 on the first step, else 1 - dampening
//   param -= lr * (nesterov ? d + momentum * buffer : buffer)
//
// Without momentum there is no buffer: param -= lr * d.
template <typename T>
struct SgdRule {
  T sign = 1;  // -1 maximizes
  T lr = 0;
  T momentum = 0;
  T take = 1;
  T weight_decay = 0;
  bool nesterov = false;
};

// Adam (Kingma, Ba: "Adam: a method for stochastic optimization", ICLR 2015) with PyTorch's place
// for eps. Adam adds weight decay to the gradient (shrink = 1); AdamW (Loshchilov, Hutter:
// "Decoupled weight decay regularization", ICLR 2019) shrinks the parameter (weight_decay = 0):
//
//   w = shrink * param
//   d = sign * grad + weight_decay * param
//   mean = beta1 * mean + take1 * d
//   square = beta2 * square + take2 * d * d
//   param = w - step_size * mean / (sqrt(square) / root_correction + eps)
//
// AMSGrad (Reddi, Kale, Kumar: "On the convergence of Adam and beyond", ICLR 2018) divides by the
// largest `square` so far.
template <typename T>
struct AdamRule {
  T sign = 1;  // -1 maximizes
  T beta1 = 0;
  T beta2 = 0;
  T take1 = 1;            // 1 - beta1
  T take2 = 1;            // 1 - beta2
  T step_size = 0;        // lr / (1 - beta1^steps)
  T root_correction = 1;  // sqrt(1 - beta2^steps)
  T eps = 0;
  T weight_decay = 0;
  T shrink = 1;  // 1 - lr * weight_decay
};

namespace element {

template <typename T>
HVD_ELEMENTWISE inline void sgd(const SgdRule<T>& rule, T& param, T grad) {
  param -= rule.lr * (rule.sign * grad + rule.weight_decay * param);
}

template <bool kNesterov, typename T>
HVD_ELEMENTWISE inline void sgd_with_momentum(const SgdRule<T>& rule, T& param, T grad, T& buffer) {
  const T d = rule.sign * grad + rule.weight_decay * param;
  const T moved = rule.momentum * buffer + rule.take * d;
  buffer = moved;
  param -= rule.lr * (kNesterov ? d + rule.momentum * moved : moved);
}

// The moments after a step; gives what the step divides by, before eps and correction.
template <typename T>
HVD_ELEMENTWISE inline T adam_moments(const AdamRule<T>& rule, T param, T grad, T& mean,
                                      T& square) {
  const T d = rule.sign * grad + rule.weight_decay * param;
  mean = rule.beta1 * mean + rule.take1 * d;
  square = rule.beta2 * square + rule.take2 * (d * d);
  return square;
}

// `root` is that of `square`, or with AMSGrad of the largest one.
template <typename T>
HVD_ELEMENTWISE inline void adam_step(const AdamRule<T>& rule, T& param, T mean, T root) {
  param = rule.shrink * param - rule.step_size * mean / (root / rule.root_correction + rule.eps);
}

}  // namespace element
}  // namespace hvd::engine
