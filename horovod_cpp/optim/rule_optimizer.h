#pragma once

#include <map>
#include <string>
#include <vector>

#include "horovod_cpp/optim/optimizer.h"

namespace hvd {
namespace optim {

// What SGD, Adam and the like share: groups, defaults and state. A subclass supplies the update of
// one parameter.
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

 protected:
  // What the base class knows about a subclass.
  struct Traits {
    Options defaults;
    // Names that ParamState::tensors may have: all of them or none.
    std::vector<std::string> state_tensors;
    // Throws InvalidArgumentError on values that are out of range or exclude each other.
    void (*check)(const Options&) = nullptr;
  };

  // Throws as add_param_group() does, and when there is no group.
  RuleOptimizer(std::vector<ParamGroup> groups, Traits traits);
  // Updates `param` in place from `grad` (same shape and dtype, contiguous). `state.steps` counts
  // this step already.
  virtual void update(Tensor& param, const Tensor& grad, ParamState& state,
                      const Options& options) = 0;

 private:
  void step_one(Tensor& param, const Options& options);

  std::vector<ParamGroup> groups_;
  std::map<const void*, std::size_t> group_of_;  // by Tensor::id()
  Traits traits_;
  std::map<const void*, ParamState> state_;
};

// One group with the optimizer's defaults.
std::vector<ParamGroup> one_group(std::vector<Tensor> params);

}  // namespace optim
}  // namespace hvd
