#pragma once

#include <vector>

#include "horovod_cpp/optim/rule_optimizer.h"

namespace hvd {
namespace optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
};

// Adagrad; the formula is in rules/adagrad.h. Options of a group: those of AdagradOptions. State:
// "sum", which starts at initial_accumulator_value.
class Adagrad : public RuleOptimizer {
 public:
  explicit Adagrad(std::vector<Tensor> params, const AdagradOptions& options = {});
  explicit Adagrad(std::vector<ParamGroup> groups, const AdagradOptions& options = {});

 protected:
  void update(Tensor& param, const Tensor& grad, ParamState& state,
              const Options& options) override;
  // Without weight_decay.
  bool update_rows(Tensor& param, const RowGradient& grad, ParamState& state,
                   const Options& options) override;
};

}  // namespace optim
}  // namespace hvd
