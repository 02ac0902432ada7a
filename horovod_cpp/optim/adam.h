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
  bool amsgrad = false;
  bool maximize = false;
};

// Adam; the formula is in ops/device/update.h. Options of a group: lr, beta1, beta2, eps,
// weight_decay (added to the gradient), amsgrad, maximize. State: "exp_avg", "exp_avg_sq" and, with
// amsgrad, "max_exp_avg_sq".
class Adam : public RuleOptimizer {
 public:
  explicit Adam(std::vector<Tensor> params, const AdamOptions& options = {});
  explicit Adam(std::vector<ParamGroup> groups, const AdamOptions& options = {});

 protected:
  // `decoupled`: weight decay shrinks the parameter instead of joining the gradient.
  Adam(std::vector<ParamGroup> groups, const AdamOptions& options, bool decoupled);
  void update(Tensor& param, const Tensor& grad, ParamState& state,
              const Options& options) override;

 private:
  bool decoupled_;
};

}  // namespace optim
}  // namespace hvd
