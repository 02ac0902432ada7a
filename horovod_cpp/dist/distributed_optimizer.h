#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/reduce_op.h"
#include "horovod_cpp/dist/collectives.h"
#include "horovod_cpp/optim/optimizer.h"
#include "horovod_cpp/tensor/named_tensors.h"

namespace hvd {

struct DistributedOptions {
  ReduceOp op = ReduceOp::kAverage;
  // Gradients are summed over this many backward passes before they are reduced; at least 1.
  int backward_passes_per_step = 1;
  // The ranks to reduce over; null = those of init().
  std::shared_ptr<World> world;
};

// Decorates any optimizer: when backward() has finished a parameter's gradient, its reduction over
// all ranks starts while the rest of backward still runs; step() waits for all of them and then
// lets the wrapped optimizer update. In a world of one rank it only forwards.
//
//   DistributedOptimizer optimizer(std::make_shared<optim::SGD>(model.parameters(), options),
//                                  model.named_parameters());
//
// Used by one thread, the one that calls backward().
class DistributedOptimizer final : public optim::Optimizer {
 public:
  // Throws InvalidArgumentError when names repeat, when a parameter of `optimizer` has no name,
  // when backward_passes_per_step < 1, or before init().
  DistributedOptimizer(std::shared_ptr<optim::Optimizer> optimizer,
                       NamedTensors named_parameters = {}, DistributedOptions options = {});
  ~DistributedOptimizer() override;

  // synchronize(), then the wrapped optimizer's step.
  void step() override;
  // Throws InvalidArgumentError while reductions are in flight (between backward and step).
  void zero_grad(bool set_to_none = true) override;
  // Waits until every gradient is reduced; a parameter that got none this step counts as zeros, so
  // that all ranks reduce the same names. Call it before reading or clipping gradients; calling it
  // again before the next backward() does nothing.
  void synchronize();

  // Those of the wrapped optimizer.
  std::vector<optim::ParamGroup>& param_groups() override { return inner_->param_groups(); }
  std::map<const void*, optim::ParamState>& state() override { return inner_->state(); }
  NamedTensors state_dict() override { return inner_->state_dict(); }
  void load_state_dict(const NamedTensors& state) override { inner_->load_state_dict(state); }
  // Throws InvalidArgumentError: a parameter that is added later has no hook and no name.
  void add_param_group(optim::ParamGroup group) override;

 private:
  struct Entry {
    std::string name;
    Tensor param;
    int passes = 0;  // backward passes since the last reduction started
    bool in_flight = false;
    CollectiveHandle handle;
    std::function<void()> remove_hook;
  };
  void on_gradient(Entry& entry);
  void reduce(Entry& entry);

  std::shared_ptr<World> world_;
  std::shared_ptr<optim::Optimizer> inner_;
  DistributedOptions options_;
  std::vector<std::unique_ptr<Entry>> entries_;
  bool synchronized_ = false;
};

}  // namespace hvd
