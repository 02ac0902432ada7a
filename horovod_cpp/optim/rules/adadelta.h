#pragma once

namespace hvd {
namespace optim {

// Adadelta (Zeiler: "ADADELTA: an adaptive learning rate method", 2012) with PyTorch's lr:
//
//   d = sign * grad + weight_decay * param
//   square = rho * square + take * d * d
//   delta = sqrt(deltas + eps) / sqrt(square + eps) * d
//   deltas = rho * deltas + take * delta * delta
//   param -= lr * delta
template <typename T>
struct AdadeltaRule {
  T sign = 1;  // -1 maximizes
  T lr = 0;
  T rho = 0;
  T take = 1;  // 1 - rho
  T eps = 0;
  T weight_decay = 0;
};

}  // namespace optim
}  // namespace hvd
