#pragma once

#include <vector>

#include "horovod_cpp/optim/rule_optimizer.h"

namespace hvd {
namespace optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs momentum and no dampening
  bool maximize = false;
};

// Stochastic gradient descent with momentum; the formula is in ops/device/update.h. Options of a
// group: those of SGDOptions. State: "momentum_buffer" when momentum is not 0.
class SGD : public RuleOptimizer {
 public:
  explicit SGD(std::vector<Tensor> params, const SGDOptions& options = {});
  explicit SGD(std::vector<ParamGroup> groups, const SGDOptions& options = {});

 protected:
  void update(Tensor& param, const Tensor& grad, ParamState& state,
              const Options& options) override;
  // Without momentum and weight_decay.
  bool update_rows(Tensor& param, const RowGradient& grad, ParamState& state,
                   const Options& options) override;
};

}  // namespace optim
}  // namespace hvd
