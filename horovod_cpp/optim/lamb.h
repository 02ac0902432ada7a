#pragma once

#include <utility>
#include <vector>

#include "horovod_cpp/optim/rule_optimizer.h"

namespace hvd {
namespace optim {

struct LAMBOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
};

// LAMB; the formula is in rules/lamb.h. Options of a group: lr, beta1, beta2, eps, weight_decay,
// maximize. State: "exp_avg" and "exp_avg_sq". Biases and normalisations are usually given in a
// group with weight_decay = 0.
class LAMB : public RuleOptimizer {
 public:
  explicit LAMB(std::vector<Tensor> params, const LAMBOptions& options = {});
  explicit LAMB(std::vector<ParamGroup> groups, const LAMBOptions& options = {});

 protected:
  void update(Tensor& param, const Tensor& grad, ParamState& state,
              const Options& options) override;
};

}  // namespace optim
}  // namespace hvd
