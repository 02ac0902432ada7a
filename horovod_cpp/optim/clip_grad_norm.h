#pragma once

#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace optim {

// Scales the gradients of all these parameters by one factor, so that their joint L2 norm is at
// most max_norm (as PyTorch: by max_norm / (norm + 1e-6) if that is below 1), and returns the norm
// they had. Parameters without a gradient are skipped. Throws InvalidArgumentError unless max_norm
// > 0.
double clip_grad_norm_(const std::vector<Tensor>& params, double max_norm);

}  // namespace optim
}  // namespace hvd
