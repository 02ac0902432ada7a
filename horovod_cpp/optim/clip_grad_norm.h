#pragma once

#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd::optim {

struct ClipGradNormOptions {
  double norm_type = 2;  // above 0; infinity: the largest magnitude
  // Throw InvalidArgumentError, and change nothing, when the norm is infinite or NaN. Otherwise
  // such a norm goes where arithmetic takes it: NaN makes every gradient NaN.
  bool error_if_nonfinite = false;
};

// Scales the gradients of all these parameters by one factor, so that their joint norm is at most
// max_norm (as PyTorch: by max_norm / (norm + 1e-6) if that is below 1), and returns the norm they
// had. The norm is summed in float64 whatever the gradients' dtypes. Parameters without a gradient
// are skipped. Throws InvalidArgumentError unless max_norm > 0 and norm_type > 0. Gradients on
// devices have norms of type 1 and 2 (UnsupportedError otherwise), and are waited for.
double clip_grad_norm_(const std::vector<Tensor>& params, double max_norm,
                       const ClipGradNormOptions& options = {});

// Brings every element of the gradients into [-clip_value, clip_value]; NaN stays. Throws
// InvalidArgumentError unless clip_value >= 0.
void clip_grad_value_(const std::vector<Tensor>& params, double clip_value);

}  // namespace hvd::optim
