#pragma once

namespace hvd {
namespace optim {

// RMSprop (Tieleman, Hinton: "Neural networks for machine learning", lecture 6.5, 2012; centered:
// Graves: "Generating sequences with recurrent neural networks", 2013) as PyTorch defines it:
//
//   d = sign * grad + weight_decay * param
//   square = alpha * square + take * d * d
//   mean = alpha * mean + take * d                        only if centered
//   step = d / (sqrt(square - mean * mean) + eps)         without mean: sqrt(square)
//   buffer = momentum * buffer + step                     without momentum: buffer = step
//   param -= lr * buffer
//
// Where rounding makes square - mean * mean negative, it counts as 0.
template <typename T>
struct RmspropRule {
  T sign = 1;  // -1 maximizes
  T lr = 0;
  T alpha = 0;
  T take = 1;  // 1 - alpha
  T eps = 0;
  T weight_decay = 0;
  T momentum = 0;
};

}  // namespace optim
}  // namespace hvd
