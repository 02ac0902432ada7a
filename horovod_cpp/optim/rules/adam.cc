#include "horovod_cpp/optim/rules/compiled.h"

namespace hvd {
namespace optim {
namespace HVD_ISA_NAME {
namespace {

template <bool kLargest, typename T>
void loop(const AdamRule<T>& rule, std::int64_t n, T* __restrict param, const T* __restrict grad,
          T* __restrict mean, T* __restrict square, T* __restrict largest) {
  for (std::int64_t i = 0; i < n; ++i) {
    T s = element::adam_moments(rule, param[i], grad[i], mean[i], square[i]);
    if constexpr (kLargest) {
      s = largest[i] > s || largest[i] != largest[i] ? largest[i] : s;  // a NaN stays
      largest[i] = s;
    }
    element::adam_step(rule, param[i], mean[i], root(s));
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
