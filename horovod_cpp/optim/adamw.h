#pragma once

#include <utility>
#include <vector>

#include "horovod_cpp/optim/adam.h"

namespace hvd {
namespace optim {

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
};

// Adam with decoupled weight decay: parameters shrink by 1 - lr * weight_decay instead; the formula
// is in ops/device/update.h. Options and state are Adam's.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> params, const AdamWOptions& options = {});
  explicit AdamW(std::vector<ParamGroup> groups, const AdamWOptions& options = {});
};

}  // namespace optim
}  // namespace hvd
