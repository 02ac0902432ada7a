#pragma once

namespace hvd {
namespace optim {

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

}  // namespace optim
}  // namespace hvd
