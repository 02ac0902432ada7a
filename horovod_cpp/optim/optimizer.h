#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd::optim {

// By name: "lr", "momentum", ... A switch is 0 or 1.
using Options = std::map<std::string, double>;

// Parameters that share options, as in PyTorch.
struct ParamGroup {
  std::vector<Tensor> params;
  Options options;
  // Where learning rate schedules start from: "lr" when the first of them was made for this group.
  std::optional<double> initial_lr = {};
};

// Per parameter: tensors by name ("momentum_buffer", "exp_avg"), each with the parameter's shape
// and dtype (float32 for a float16 or bfloat16 parameter), and the number of steps taken.
struct ParamState {
  std::map<std::string, Tensor> tensors;
  std::int64_t steps = 0;
};

// Applies gradients to parameters. Parameters without a gradient are skipped; gradients are read,
// never written. Not thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  virtual void step() = 0;
  // What step() does, for these parameters alone: doing all of them one after the other is a step,
  // bit for bit. Throws InvalidArgumentError on one that is in no group; nothing is changed then.
  virtual void step_parameters(const std::vector<Tensor>& params) = 0;
  virtual void zero_grad(bool set_to_none = true) = 0;

  // Options may be changed between steps (lr schedules).
  virtual std::vector<ParamGroup>& param_groups() = 0;
  // Missing options take this optimizer's defaults. Throws InvalidArgumentError, and changes
  // nothing, on an empty group, a parameter given twice, one that is not a contiguous leaf of a
  // floating dtype, or an option that is unknown or out of range.
  virtual void add_param_group(ParamGroup group) = 0;

  // State of parameters that have taken a step, keyed by Tensor::id().
  virtual std::map<const void*, ParamState>& state() = 0;

  // Options and state as tensors, for checkpoints and broadcasts. Of group g and its parameter p:
  // "group.g.<option>" (float64 scalar), "group.g.param.p.steps" (int64 scalar) and
  // "group.g.param.p.<state tensor>" (the optimizer's own tensor, not a copy).
  virtual NamedTensors state_dict() = 0;
  // Copies such a state in. Throws InvalidArgumentError naming the entry that is missing,
  // unexpected, doubled or of the wrong shape or dtype; nothing is changed then.
  virtual void load_state_dict(const NamedTensors& state) = 0;

 protected:
  Optimizer() = default;
};

}  // namespace hvd::optim
