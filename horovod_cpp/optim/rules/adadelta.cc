#include "horovod_cpp/optim/rules/compiled.h"

namespace hvd {
namespace optim {
namespace HVD_ISA_NAME {
namespace {

template <typename T>
void update(const AdadeltaRule<T>& rule, std::int64_t n, T* __restrict param,
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

}  // namespace

template <typename T>
void set_adadelta(Updates<T>& updates) {
  updates.adadelta = update<T>;
}

template void set_adadelta(Updates<float>& updates);
template void set_adadelta(Updates<double>& updates);

}  // namespace HVD_ISA_NAME
}  // namespace optim
}  // namespace hvd
