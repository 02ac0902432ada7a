#pragma once

#include <utility>
#include <vector>

#include "horovod_cpp/optim/rule_optimizer.h"

namespace hvd {
namespace optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
};

// Adam; the formula is in adam_rule.h. Options of a group: lr, beta1, beta2, eps, weight_decay.
// State: "exp_avg" and "exp_avg_sq".
class Adam : public RuleOptimizer {
 public:
  explicit Adam(std::vector<Tensor> params, const AdamOptions& options = {});
  explicit Adam(std::vector<ParamGroup> groups, const AdamOptions& options = {});

 protected:
  void update(Tensor& param, const Tensor& grad, ParamState& state,
              const Options& options) override;
};

}  // namespace optim
}  // namespace hvd
