#pragma once

#include <utility>
#include <vector>

#include "horovod_cpp/optim/rule_optimizer.h"

// The optimizers of this library, with PyTorch's names, options and numbers. The options of a group
// are those of the optimizer's struct ("beta1" and "beta2" for `betas`); the formulas are in
// ops/device/update.h and optim/rules.h.
namespace hvd::optim {

// What the seven have in common; `Given` are the options of one of them.
template <typename Given>
class BuiltInOptimizer : public RuleOptimizer {
 public:
  explicit BuiltInOptimizer(std::vector<Tensor> params, const Given& options = {})
      : BuiltInOptimizer(one_group(std::move(params)), options) {}
  explicit BuiltInOptimizer(std::vector<ParamGroup> groups, const Given& options = {});

 protected:
  void update(Tensor& param, const Tensor& grad, ParamState& state,
              const Options& options) override;
  bool update_rows(Tensor& param, const RowGradient& grad, ParamState& state,
                   const Options& options) override;

 private:
  static Traits traits(const Given& given);
};

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs momentum and no dampening
  bool maximize = false;
};

// Stochastic gradient descent with momentum. State: "momentum_buffer" when momentum is not 0. Rows
// of a gradient are updated alone without momentum and weight_decay.
using SGD = BuiltInOptimizer<SGDOptions>;

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
  bool amsgrad = false;
  bool maximize = false;
};

// State: "exp_avg", "exp_avg_sq" and, with amsgrad, "max_exp_avg_sq".
using Adam = BuiltInOptimizer<AdamOptions>;

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // parameters shrink by 1 - lr * weight_decay instead
  bool amsgrad = false;
  bool maximize = false;
};

// Adam with decoupled weight decay; the state is Adam's.
using AdamW = BuiltInOptimizer<AdamWOptions>;

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
};

// State: "square_avg", "grad_avg" if centered, "momentum_buffer" when momentum is not 0.
using RMSprop = BuiltInOptimizer<RMSpropOptions>;

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
};

// State: "sum", which starts at initial_accumulator_value. Rows of a gradient are updated alone
// without weight_decay.
using Adagrad = BuiltInOptimizer<AdagradOptions>;

struct AdadeltaOptions {
  double lr = 1.0;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
};

// State: "square_avg" and "acc_delta".
using Adadelta = BuiltInOptimizer<AdadeltaOptions>;

struct LAMBOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
};

// State: "exp_avg" and "exp_avg_sq". Biases and normalisations are usually given in a group with
// weight_decay = 0.
using LAMB = BuiltInOptimizer<LAMBOptions>;

}  // namespace hvd::optim
