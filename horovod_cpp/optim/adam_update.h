#pragma once

#include "horovod_cpp/optim/rule_optimizer.h"

// What Adam and AdamW share.
namespace hvd {
namespace optim {

inline constexpr const char* kAdamMean = "exp_avg";
inline constexpr const char* kAdamSquare = "exp_avg_sq";
inline constexpr const char* kAdamLargest = "max_exp_avg_sq";

void check_adam(const Options& options);

// `decoupled`: weight decay shrinks the parameter instead of joining the gradient.
void adam_update(bool decoupled, Tensor& param, const Tensor& grad, ParamState& state,
                 const Options& options);

}  // namespace optim
}  // namespace hvd
