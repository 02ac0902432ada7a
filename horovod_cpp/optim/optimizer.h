#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace optim {

// Parameters that share options ("lr", "momentum", ...), as in PyTorch.
struct ParamGroup {
  std::vector<Tensor> params;
  std::map<std::string, double> options;
};

// Per parameter: tensors by name ("momentum_buffer", "exp_avg") and the number of steps taken.
struct ParamState {
  std::map<std::string, Tensor> tensors;
  std::int64_t steps = 0;
};

// Applies gradients to parameters. A subclass supplies the update of one parameter. Parameters
// without a gradient are skipped. Not thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual void step();
  virtual void zero_grad(bool set_to_none = true);

  // Groups may be changed between steps (lr schedules).
  virtual std::vector<ParamGroup>& param_groups() { return groups_; }
  void add_param_group(ParamGroup group);  // missing options take this optimizer's defaults

  // State of parameters that have taken a step, keyed by Tensor::id().
  virtual std::map<const void*, ParamState>& state() { return state_; }

 protected:
  // Throws InvalidArgumentError on an empty list, a parameter given twice or an unknown option.
  Optimizer(std::vector<ParamGroup> groups, std::map<std::string, double> defaults);
  // For decorators that forward everything.
  Optimizer() = default;
  // Updates `param` in place from `grad`; never writes `grad`.
  virtual void update(Tensor& param, const Tensor& grad, ParamState& state,
                      const std::map<std::string, double>& options) = 0;

 private:
  std::vector<ParamGroup> groups_;
  std::map<std::string, double> defaults_;
  std::map<const void*, ParamState> state_;
};

}  // namespace optim
}  // namespace hvd
