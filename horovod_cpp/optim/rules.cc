// Compiled once per instruction set, with HVD_ISA_NAME a namespace of its own each time; what
// tensor/cpu_dispatch/compiled.h says holds here too.
#include "horovod_cpp/optim/rules.h"

#include <math.h>

namespace hvd::optim::HVD_ISA_NAME {
namespace {

inline float root(float x) {
  return ::sqrtf(x);
}
inline double root(double x) {
  return ::sqrt(x);
}

template <bool kNesterov, typename T>
void sgd_with_momentum(const engine::SgdRule<T>& rule, std::int64_t n, T* __restrict param,
                       const T* __restrict grad, T* __restrict buffer) {
  for (std::int64_t i = 0; i < n; ++i) {
    engine::element::sgd_with_momentum<kNesterov>(rule, param[i], grad[i], buffer[i]);
  }
}

template <typename T>
void sgd(const engine::SgdRule<T>& rule, std::int64_t n, T* __restrict param,
         const T* __restrict grad, T* __restrict buffer) {
  if (buffer == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) engine::element::sgd(rule, param[i], grad[i]);
  } else if (rule.nesterov) {
    sgd_with_momentum<true>(rule, n, param, grad, buffer);
  } else {
    sgd_with_momentum<false>(rule, n, param, grad, buffer);
  }
}

template <bool kLargest, typename T>
void adam_loop(const engine::AdamRule<T>& rule, std::int64_t n, T* __restrict param,
               const T* __restrict grad, T* __restrict mean, T* __restrict square,
               T* __restrict largest) {
  for (std::int64_t i = 0; i < n; ++i) {
    T s = engine::element::adam_moments(rule, param[i], grad[i], mean[i], square[i]);
    if constexpr (kLargest) {
      s = largest[i] > s || largest[i] != largest[i] ? largest[i] : s;  // a NaN stays
      largest[i] = s;
    }
    engine::element::adam_step(rule, param[i], mean[i], root(s));
  }
}

template <typename T>
void adam(const engine::AdamRule<T>& rule, std::int64_t n, T* param, const T* grad, T* mean,
          T* square, T* largest) {
  const auto loop = largest == nullptr ? adam_loop<false, T> : adam_loop<true, T>;
  loop(rule, n, param, grad, mean, square, largest);
}

template <bool kCentered, bool kMomentum, typename T>
void rmsprop_loop(const RmspropRule<T>& rule, std::int64_t n, T* __restrict param,
                  const T* __restrict grad, T* __restrict square, T* __restrict mean,
                  T* __restrict buffer) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T d = rule.sign * grad[i] + rule.weight_decay * param[i];
    T s = rule.alpha * square[i] + rule.take * (d * d);
    square[i] = s;
    if constexpr (kCentered) {
      const T m = rule.alpha * mean[i] + rule.take * d;
      mean[i] = m;
      s -= m * m;
      s = s < T(0) ? T(0) : s;
    }
    T step = d / (root(s) + rule.eps);
    if constexpr (kMomentum) {
      step += rule.momentum * buffer[i];
      buffer[i] = step;
    }
    param[i] -= rule.lr * step;
  }
}

template <typename T>
void rmsprop(const RmspropRule<T>& rule, std::int64_t n, T* param, const T* grad, T* square,
             T* mean, T* buffer) {
  const auto plain =
      buffer == nullptr ? rmsprop_loop<false, false, T> : rmsprop_loop<false, true, T>;
  const auto centered =
      buffer == nullptr ? rmsprop_loop<true, false, T> : rmsprop_loop<true, true, T>;
  (mean == nullptr ? plain : centered)(rule, n, param, grad, square, mean, buffer);
}

template <typename T>
void adagrad(const AdagradRule<T>& rule, std::int64_t n, T* __restrict param,
             const T* __restrict grad, T* __restrict sum) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T d = rule.sign * grad[i] + rule.weight_decay * param[i];
    const T s = sum[i] + d * d;
    sum[i] = s;
    param[i] -= rule.step_size * d / (root(s) + rule.eps);
  }
}

template <typename T>
void adadelta(const AdadeltaRule<T>& rule, std::int64_t n, T* __restrict param,
              const T* __restrict grad, T* __restrict square, T* __restrict deltas) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T d = rule.sign * grad[i] + rule.weight_decay * param[i];
    const T s = rule.rho * square[i] + rule.take * (d * d);
    square[i] = s;
    const T delta = root(deltas[i] + rule.eps) / root(s + rule.eps) * d;
    deltas[i] = rule.rho * deltas[i] + rule.take * (delta * delta);
    param[i] -= rule.lr * delta;
  }
}

// Sums in a fixed order, whatever the width of the registers.
constexpr std::int64_t kLanes = 16;

double total(const double* lanes) {
  double sum = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

template <typename T>
T lamb_direction(const LambRule<T>& rule, T param, T mean, T square) {
  return mean / rule.correction / (root(square) / rule.root_correction + rule.eps) +
         rule.weight_decay * param;
}

// Moves n elements of mean and square; adds the squares of param and r to the lanes.
template <typename T>
void lamb_move(const LambRule<T>& rule, std::int64_t n, const T* __restrict param,
               const T* __restrict grad, T* __restrict mean, T* __restrict square, double* params,
               double* directions) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T d = rule.sign * grad[i];
    const T m = rule.beta1 * mean[i] + rule.take1 * d;
    const T s = rule.beta2 * square[i] + rule.take2 * (d * d);
    mean[i] = m;
    square[i] = s;
    const auto r = static_cast<double>(lamb_direction(rule, param[i], m, s));
    const auto p = static_cast<double>(param[i]);
    params[i] += p * p;
    directions[i] += r * r;
  }
}

// Moves mean and square, and returns |param| / |r|.
template <typename T>
double lamb_trust_ratio(const LambRule<T>& rule, std::int64_t n, const T* param, const T* grad,
                        T* mean, T* square) {
  double params[kLanes] = {};
  double directions[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    lamb_move(rule, kLanes, param + i, grad + i, mean + i, square + i, params, directions);
  }
  lamb_move(rule, n - i, param + i, grad + i, mean + i, square + i, params, directions);
  const double of_params = total(params);
  const double of_directions = total(directions);
  if (of_params == 0 || of_directions == 0) return 1;
  return root(of_params) / root(of_directions);
}

template <typename T>
void lamb(const LambRule<T>& rule, std::int64_t n, T* __restrict param, const T* __restrict grad,
          T* __restrict mean, T* __restrict square) {
  const double ratio = lamb_trust_ratio(rule, n, param, grad, mean, square);
  const T step_size = static_cast<T>(static_cast<double>(rule.lr) * ratio);
  for (std::int64_t i = 0; i < n; ++i) {
    param[i] -= step_size * lamb_direction(rule, param[i], mean[i], square[i]);
  }
}

template <typename T>
constexpr Updates<T> kUpdates = {sgd<T>, adam<T>, rmsprop<T>, adagrad<T>, adadelta<T>, lamb<T>};

}  // namespace

// Declared again in optimizers.cc, the one caller.
void fill(UpdateTable& table) {
  table = {kUpdates<float>, kUpdates<double>};
}

}  // namespace hvd::optim::HVD_ISA_NAME
