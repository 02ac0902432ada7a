#include "horovod_cpp/optim/rules/compiled.h"

namespace hvd {
namespace optim {
namespace HVD_ISA_NAME {
namespace {

template <bool kLargest, typename T>
void loop(const AdamRule<T>& rule, std::int64_t n, T* __restrict param, const T* __restrict grad,
          T* __restrict mean, T* __restrict square, T* __restrict largest) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T d = rule.sign * grad[i] + rule.weight_decay * param[i];
    const T m = rule.beta1 * mean[i] + rule.take1 * d;
    T s = rule.beta2 * square[i] + rule.take2 * (d * d);
    mean[i] = m;
    square[i] = s;
    if constexpr (kLargest) {
      s = largest[i] < s ? s : largest[i];
      largest[i] = s;
    }
    param[i] =
        rule.shrink * param[i] - rule.step_size * m / (root(s) / rule.root_correction + rule.eps);
  }
}

template <typename T>
void update(const AdamRule<T>& rule, std::int64_t n, T* param, const T* grad, T* mean, T* square,
            T* largest) {
  if (largest == nullptr) {
    loop<false>(rule, n, param, grad, mean, square, largest);
  } else {
    loop<true>(rule, n, param, grad, mean, square, largest);
  }
}

}  // namespace

template <typename T>
void set_adam(Updates<T>& updates) {
  updates.adam = update<T>;
}

template void set_adam(Updates<float>& updates);
template void set_adam(Updates<double>& updates);

}  // namespace HVD_ISA_NAME
}  // namespace optim
}  // namespace hvd
