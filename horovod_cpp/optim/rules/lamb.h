#pragma once

namespace hvd {
namespace optim {

// LAMB (You, Li, Reddi, Hseu, Kumar, Bhojanapalli, Song, Demmel, Keutzer, Hsieh: "Large batch
// optimization for deep learning: training BERT in 76 minutes", ICLR 2020, algorithm 2, with the
// identity for phi):
//
//   d = sign * grad
//   mean = beta1 * mean + take1 * d
//   square = beta2 * square + take2 * d * d
//   r = mean / correction / (sqrt(square) / root_correction + eps) + weight_decay * param
//   param -= lr * |param| / |r| * r
//
// |.| is the L2 norm over the whole parameter; where one of the two is 0, their ratio counts as 1.
template <typename T>
struct LambRule {
  T sign = 1;  // -1 maximizes
  T lr = 0;
  T beta1 = 0;
  T beta2 = 0;
  T take1 = 1;            // 1 - beta1
  T take2 = 1;            // 1 - beta2
  T correction = 1;       // 1 - beta1^steps
  T root_correction = 1;  // sqrt(1 - beta2^steps)
  T eps = 0;
  T weight_decay = 0;
};

}  // namespace optim
}  // namespace hvd
