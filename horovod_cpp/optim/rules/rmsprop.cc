#include "horovod_cpp/optim/rules/compiled.h"

namespace hvd {
namespace optim {
namespace HVD_ISA_NAME {
namespace {

template <bool kCentered, bool kMomentum, typename T>
void loop(const RmspropRule<T>& rule, std::int64_t n, T* __restrict param, const T* __restrict grad,
          T* __restrict square, T* __restrict mean, T* __restrict buffer) {
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
void update(const RmspropRule<T>& rule, std::int64_t n, T* param, const T* grad, T* square, T* mean,
            T* buffer) {
  if (mean == nullptr) {
    const auto each = buffer == nullptr ? loop<false, false, T> : loop<false, true, T>;
    each(rule, n, param, grad, square, mean, buffer);
  } else {
    const auto each = buffer == nullptr ? loop<true, false, T> : loop<true, true, T>;
    each(rule, n, param, grad, square, mean, buffer);
  }
}

}  // namespace

template <typename T>
void set_rmsprop(Updates<T>& updates) {
  updates.rmsprop = update<T>;
}

template void set_rmsprop(Updates<float>& updates);
template void set_rmsprop(Updates<double>& updates);

}  // namespace HVD_ISA_NAME
}  // namespace optim
}  // namespace hvd
