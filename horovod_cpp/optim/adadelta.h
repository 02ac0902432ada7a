#pragma once

#include <vector>

#include "horovod_cpp/optim/rule_optimizer.h"

namespace hvd {
namespace optim {

struct AdadeltaOptions {
  double lr = 1.0;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
};

// Adadelta; the formula is in rules/adadelta.h. Options of a group: those of AdadeltaOptions.
// State: "square_avg" and "acc_delta".
class Adadelta : public RuleOptimizer {
 public:
  explicit Adadelta(std::vector<Tensor> params, const AdadeltaOptions& options = {});
  explicit Adadelta(std::vector<ParamGroup> groups, const AdadeltaOptions& options = {});

 protected:
  void update(Tensor& param, const Tensor& grad, ParamState& state,
              const Options& options) override;
};

}  // namespace optim
}  // namespace hvd
