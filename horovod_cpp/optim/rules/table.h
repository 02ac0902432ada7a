#pragma once

#include <cstdint>
#include <string_view>

#include "horovod_cpp/optim/rules/adadelta.h"
#include "horovod_cpp/optim/rules/adagrad.h"
#include "horovod_cpp/optim/rules/lamb.h"
#include "horovod_cpp/optim/rules/rmsprop.h"
#include "ops/device/update.h"

// Update rules as pure functions on arrays: the formulas stand in the header of each rule (in
// ops/device/update.h those that devices have too), the loops in its .cc, which is compiled once
// per instruction set. Nothing is contracted into fused multiply-adds there, so that every
// instruction set gives the same bits.
namespace hvd {
namespace optim {

// T is float or double. All arrays have n elements and do not overlap; state is zero before the
// first step unless a rule's optimizer says otherwise. An array that may be null is not used then.
template <typename T>
struct Updates {
  // `buffer` null: without momentum.
  void (*sgd)(const SgdRule<T>& rule, std::int64_t n, T* param, const T* grad, T* buffer);
  // `largest` null: without AMSGrad.
  void (*adam)(const AdamRule<T>& rule, std::int64_t n, T* param, const T* grad, T* mean, T* square,
               T* largest);
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

// The table compiled for the instruction set of this name (tensor/cpu_dispatch/table.h). Throws
// InvalidArgumentError when there is none.
const UpdateTable& update_table(std::string_view isa);

// The one for the instruction set in use.
const UpdateTable& update_table();

}  // namespace optim
}  // namespace hvd
