#pragma once

namespace hvd {
namespace optim {

// Stochastic gradient descent as PyTorch defines it (Sutskever, Martens, Dahl, Hinton: "On the
// importance of initialization and momentum in deep learning", ICML 2013, with the learning rate
// outside of the buffer):
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

}  // namespace optim
}  // namespace hvd
