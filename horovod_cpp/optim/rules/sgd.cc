#include "horovod_cpp/optim/rules/compiled.h"

namespace hvd {
namespace optim {
namespace HVD_ISA_NAME {
namespace {

template <bool kNesterov, typename T>
void with_momentum(const SgdRule<T>& rule, std::int64_t n, T* __restrict param,
                   const T* __restrict grad, T* __restrict buffer) {
  for (std::int64_t i = 0; i < n; ++i) {
    element::sgd_with_momentum<kNesterov>(rule, param[i], grad[i], buffer[i]);
  }
}

template <typename T>
void update(const SgdRule<T>& rule, std::int64_t n, T* __restrict param, const T* __restrict grad,
            T* __restrict buffer) {
  if (buffer == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) {
      element::sgd(rule, param[i], grad[i]);
    }
  } else if (rule.nesterov) {
    with_momentum<true>(rule, n, param, grad, buffer);
  } else {
    with_momentum<false>(rule, n, param, grad, buffer);
  }
}

}  // namespace

template <typename T>
void set_sgd(Updates<T>& updates) {
  updates.sgd = update<T>;
}

template void set_sgd(Updates<float>& updates);
template void set_sgd(Updates<double>& updates);

}  // namespace HVD_ISA_NAME
}  // namespace optim
}  // namespace hvd
