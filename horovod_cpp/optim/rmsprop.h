#pragma once

#include <vector>

#include "horovod_cpp/optim/rule_optimizer.h"

namespace hvd {
namespace optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
};

// RMSprop; the formula is in rules/rmsprop.h. Options of a group: those of RMSpropOptions. State:
// "square_avg", "grad_avg" if centered, "momentum_buffer" when momentum is not 0.
class RMSprop : public RuleOptimizer {
 public:
  explicit RMSprop(std::vector<Tensor> params, const RMSpropOptions& options = {});
  explicit RMSprop(std::vector<ParamGroup> groups, const RMSpropOptions& options = {});

 protected:
  void update(Tensor& param, const Tensor& grad, ParamState& state,
              const Options& options) override;
};

}  // namespace optim
}  // namespace hvd
