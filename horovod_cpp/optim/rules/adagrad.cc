#include "horovod_cpp/optim/rules/compiled.h"

namespace hvd {
namespace optim {
namespace HVD_ISA_NAME {
namespace {

template <typename T>
void update(const AdagradRule<T>& rule, std::int64_t n, T* __restrict param,
            const T* __restrict grad, T* __restrict sum) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T d = rule.sign * grad[i] + rule.weight_decay * param[i];
    const T s = sum[i] + d * d;
    sum[i] = s;
    param[i] -= rule.step_size * d / (root(s) + rule.eps);
  }
}

}  // namespace

template <typename T>
void set_adagrad(Updates<T>& updates) {
  updates.adagrad = update<T>;
}

template void set_adagrad(Updates<float>& updates);
template void set_adagrad(Updates<double>& updates);

}  // namespace HVD_ISA_NAME
}  // namespace optim
}  // namespace hvd
