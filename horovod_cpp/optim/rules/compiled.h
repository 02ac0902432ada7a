#pragma once

// For the files that are compiled once per instruction set, with HVD_ISA_NAME a namespace of its
// own each time; what tensor/cpu_dispatch/compiled.h says holds here too.
#include <math.h>

#include "horovod_cpp/optim/rules/table.h"

namespace hvd {
namespace optim {
namespace HVD_ISA_NAME {

inline float root(float x) {
  return ::sqrtf(x);
}
inline double root(double x) {
  return ::sqrt(x);
}

template <typename T>
void set_sgd(Updates<T>& updates);
template <typename T>
void set_adam(Updates<T>& updates);
template <typename T>
void set_rmsprop(Updates<T>& updates);
template <typename T>
void set_adagrad(Updates<T>& updates);
template <typename T>
void set_adadelta(Updates<T>& updates);
template <typename T>
void set_lamb(Updates<T>& updates);

}  // namespace HVD_ISA_NAME
}  // namespace optim
}  // namespace hvd
