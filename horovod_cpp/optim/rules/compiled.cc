#include "horovod_cpp/optim/rules/compiled.h"

namespace hvd {
namespace optim {
namespace HVD_ISA_NAME {
namespace {

template <typename T>
void set_all(Updates<T>& updates) {
  set_sgd(updates);
  set_adam(updates);
  set_rmsprop(updates);
  set_adagrad(updates);
  set_adadelta(updates);
  set_lamb(updates);
}

}  // namespace

// Declared again in rule_choice.cc, the one caller.
void fill(UpdateTable& table) {
  set_all(table.f32);
  set_all(table.f64);
}

}  // namespace HVD_ISA_NAME
}  // namespace optim
}  // namespace hvd
