#pragma once

#include <cstdint>

#include "core/base/isa.h"
#include "ops/device/update.h"

// Update rules as pure functions on arrays: the formulas stand here (in ops/device/update.h those
// that devices have too), the loops in rules.cc, which is compiled once per instruction set.
// Nothing is contracted into fused multiply-adds there, so that every instruction set gives the
// same bits.
namespace hvd::optim {

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

// T is float or double. All arrays have n elements and do not overlap; state is zero before the
// first step unless a rule's optimizer says otherwise. An array that may be null is not used then.
template <typename T>
struct Updates {
  // `buffer` null: without momentum.
  void (*sgd)(const engine::SgdRule<T>& rule, std::int64_t n, T* param, const T* grad, T* buffer);
  // `largest` null: without AMSGrad.
  void (*adam)(const engine::AdamRule<T>& rule, std::int64_t n, T* param, const T* grad, T* mean,
               T* square, T* largest);
  // `mean` null: not centered. `buffer` null: without momentum.
  void (*rmsprop)(const RmspropRule<T>& rule, std::int64_t n, T* param, const T* grad, T* square,
                  T* mean, T* buffer);
  void (*adagrad)(const AdagradRule<T>& rule, std::int64_t n, T* param, const T* grad, T* sum);
  void (*adadelta)(const AdadeltaRule<T>& rule, std::int64_t n, T* param, const T* grad, T* square,
                   T* deltas);
  void (*lamb)(const LambRule<T>& rule, std::int64_t n, T* param, const T* grad, T* mean,
               T* square);
};

struct UpdateTable {
  Updates<float> f32;
  Updates<double> f64;

  template <typename T>
  const Updates<T>& of() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return f32;
    } else {
      return f64;
    }
  }
};

// The table compiled for the instruction set of one of isa::available().
const UpdateTable& update_table(Isa isa);

// The one for the instruction set in use.
const UpdateTable& update_table();

}  // namespace hvd::optim
