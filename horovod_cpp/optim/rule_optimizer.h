#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/optim/optimizer.h"

namespace hvd::optim {

class StateEntries;

// What SGD, Adam and the like share: groups, defaults and state. A subclass supplies the update of
// one parameter: derive from this for an optimizer of your own (examples/custom_optimizer.cc).
//
// A float16 or bfloat16 parameter is updated in float32: its state has one more tensor,
// "master_param" (float32), which takes the step and is then rounded into the parameter. Elements
// of the parameter that someone else wrote since are taken over first.
class RuleOptimizer : public Optimizer {
 public:
  void step() override;
  void step_parameters(const std::vector<Tensor>& params) override;
  void zero_grad(bool set_to_none = true) override;
  std::vector<ParamGroup>& param_groups() override { return groups_; }
  void add_param_group(ParamGroup group) override;
  std::map<const void*, ParamState>& state() override { return state_; }
  NamedTensors state_dict() override;
  void load_state_dict(const NamedTensors& state) override;

  // The options that a group takes where it says nothing.
  const Options& defaults() const { return traits_.defaults; }
  // Of groups that are added from now on. Throws InvalidArgumentError on an option that is unknown
  // or out of range.
  void set_defaults(const Options& defaults);

 protected:
  // What the base class knows about a subclass.
  struct Traits {
    Options defaults;
    // Names in ParamState::tensors: those that every step leaves there, and those that depend on
    // the options.
    std::vector<std::string> state_tensors;
    std::vector<std::string> optional_state_tensors;
    // Throws InvalidArgumentError on values that are out of range or exclude each other; null =
    // all values are fine.
    void (*check)(const Options&) = nullptr;
  };

  // Throws as add_param_group() does, and when there is no group.
  RuleOptimizer(std::vector<ParamGroup> groups, Traits traits);
  // Updates `param` in place from `grad` (same shape and dtype, float32 or float64, contiguous).
  // `state.steps` counts this step already.
  virtual void update(Tensor& param, const Tensor& grad, ParamState& state,
                      const Options& options) = 0;
  // The same of a gradient that is zero except for some rows, with the bits of update(). Returns
  // false, and does nothing, where these options change other rows too: the whole then goes to
  // update().
  virtual bool update_rows(Tensor& param, const RowGradient& grad, ParamState& state,
                           const Options& options);

  // The state of `param`, whose entries begin with `key`, in load_state_dict(); none if it has
  // taken no step.
  virtual std::optional<ParamState> take_param(StateEntries& entries, const std::string& key,
                                               const Tensor& param) const;

 private:
  void step_one(Tensor& param, const Options& options);

  std::vector<ParamGroup> groups_;
  std::map<const void*, std::size_t> group_of_;  // by Tensor::id()
  Traits traits_;
  std::map<const void*, ParamState> state_;
};

// The state tensor `name`, like `param` and filled with `initial` when it is new. Throws
// InvalidArgumentError naming it if someone set one of another shape, dtype or device; one that is
// not contiguous is replaced by a copy.
Tensor& state_tensor(ParamState& state, const char* name, const Tensor& param, double initial = 0);

// One group with the optimizer's defaults.
std::vector<ParamGroup> one_group(std::vector<Tensor> params);

}  // namespace hvd::optim
