#pragma once

#include "horovod_cpp/optim/optimizer.h"

namespace hvd {
namespace optim {

// Each throws InvalidArgumentError naming option and value; NaN is never in range.
void check_not_negative(const Options& options, const char* name);
void check_finite(const Options& options, const char* name);
void check_below_one(const Options& options, const char* name);    // 0 <= value < 1
void check_at_most_one(const Options& options, const char* name);  // 0 <= value <= 1
// What Adam and its relatives have: lr, beta1, beta2, eps, weight_decay.
void check_adam(const Options& options);

}  // namespace optim
}  // namespace hvd
