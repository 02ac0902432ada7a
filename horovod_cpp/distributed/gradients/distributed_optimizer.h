#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/reduction.h"
#include "horovod_cpp/distributed/collectives/options.h"
#include "horovod_cpp/nn/module.h"
#include "horovod_cpp/optim/optimizer.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Scales all gradients so that their joint L2 norm is at most max_norm. Before the reduction each
// rank clips its own gradients, and nothing is sent before step() or synchronize(); after it, all
// ranks clip the reduced ones alike.
struct ClipGradNorm {
  enum class When { kBeforeReduction, kAfterReduction };
  double max_norm = 1.0;  // above 0
  When when = When::kAfterReduction;
};

struct DistributedOptions {
  // How gradients are combined. Adasum combines what the wrapped optimizer changed instead: it
  // steps on this rank's gradients, and the difference that made to the parameters is reduced.
  ReduceOp op = ReduceOp::kAverage;
  Compression compression = {};  // not with Adasum
  // Gradients are summed over this many backward passes before they are reduced; at least 1.
  int backward_passes_per_step = 1;
  // Divides the sum by the number of passes it was made of, whatever backward_passes_per_step says.
  bool average_aggregated_gradients = false;
  // Average only: gradients are divided by this before the sum and multiplied by it afterwards.
  double gradient_predivide_factor = 1.0;
  // Gradients that are reduced together, as soon as the last of them is there: this many groups of
  // about equal numbers of parameters (0 = none), or these parameters (those that are in no group
  // go alone). Give one of the two.
  int num_groups = 0;
  std::vector<std::vector<Tensor>> groups = {};
  std::optional<ClipGradNorm> clip_grad_norm = {};
  // Whether gradients of rows (autograd/row_gradient.h: of an Embedding with `sparse`) are made
  // dense before they are reduced. If not, rows and values are gathered from all ranks (see
  // sparse_allreduce()) and stay in that form: by a call of their own, not compressed, and divided
  // once, by the ranks that contribute. With Average and Sum only; with others they become dense.
  bool sparse_as_dense = false;
  // From the second synchronize() on gradients lie in memory that the ranks share (in reverse
  // parameter order, about that of backward), or on a GPU in NCCL's, and are reduced there instead
  // of being packed and unpacked; the results are the same bits (except for the order in which NCCL
  // adds, which is its own). All ranks of the set must make the optimizer, none waits. Where there
  // is no such memory, with compression and with Adasum gradients lie in memory of their own.
  bool gradient_as_bucket_view = true;
  // step() updates each parameter as soon as its gradient is reduced, rather than after the last
  // one; the results are the same bits. Not with clip_grad_norm, which needs all of them, nor with
  // Adasum. When a reduction fails, parameters that were reduced before have taken their step.
  bool overlap_step = false;
  // The ranks to reduce over. A rank outside trains on its own.
  ProcessSet process_set = {};
};

// Throws InvalidArgumentError on options that are out of range or exclude each other.
void check_options(const DistributedOptions& options);

class GradientReducer;
class TensorGradients;

// Undoes something at the end of a scope.
class ScopeGuard {
 public:
  explicit ScopeGuard(std::function<void()> undo) : undo_(std::move(undo)) {}
  ~ScopeGuard() { undo_(); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  std::function<void()> undo_;
};

// Decorates any optimizer: when backward() has finished a parameter's gradient, its reduction over
// all ranks starts while the rest of backward still runs. Gradients are batched up to the bytes of
// HOROVOD_FUSION_THRESHOLD (Config::fusion_threshold, 1 MiB); the rest is submitted when backward()
// returns, or by step() if step() usually follows immediately. step() waits for all of them and
// then lets the wrapped optimizer update. Over one rank it only forwards (and clips, and averages).
//
//   DistributedOptimizer optimizer(std::make_shared<optim::SGD>(model.parameters(), options),
//                                  model.named_parameters());
//
// From the start of a gradient's reduction to synchronize() reading or setting the parameter's
// grad() is an InvalidArgumentError. Used by one thread, the one that calls backward().
//
// Before the first step the ranks compare parameters' names, groups and backward_passes_per_step:
// where they differ, step() throws MismatchError on every rank, naming what does. If only values
// differ, because broadcast_parameters() was forgotten, one rank warns and names the first
// parameter; they are compared again after 1, 2, 4, 8... steps (HVD_CHECK_PARAMETERS=0: not).
//
// Accumulation. Gradients are summed over backward passes, as in Horovod; divide the loss, or set
// average_aggregated_gradients. Reductions start when backward_passes_per_step passes were made;
// step() reduces what is there after fewer, and a gradient that is not there counts as zeros. What
// further passes add is reduced by step(), on its own. Ranks may make different numbers of passes,
// over different parameters: they agree in step() on what there is to reduce. Inside no_sync()
// passes are only summed. With average_aggregated_gradients every backward_passes_per_step passes
// of a parameter, and those inside no_sync() before them, make a window, whose mean counts.
//
// Uneven numbers of batches. A rank that is out of batches joins; the others go on, and averages
// divide by the ranks that still contribute. Whoever joined last has the newest parameters:
//
//   for (const Sample& batch : loader) { ...; optimizer.step(); }
//   const int last = hvd::join();
//   broadcast_parameters(model.state_dict(), last);
//   broadcast_optimizer_state(optimizer, last);
class DistributedOptimizer final : public optim::Optimizer {
 public:
  // Throws InvalidArgumentError when names repeat, when a parameter of `optimizer` has no name, on
  // options that are out of range or exclude each other, or before init(); UnsupportedError, naming
  // the parameter, when one lies on a GPU that this rank's collectives do not serve.
  DistributedOptimizer(std::shared_ptr<optim::Optimizer> optimizer,
                       NamedTensors named_parameters = {}, DistributedOptions options = {});
  ~DistributedOptimizer() override;

  // synchronize(), then the wrapped optimizer's step. Inside skip_synchronize() the latter alone:
  // InvalidArgumentError if gradients have come that are not reduced.
  void step() override;
  // synchronize(), then the wrapped optimizer's.
  void step_parameters(const std::vector<Tensor>& params) override;
  // Throws InvalidArgumentError while reductions are in flight (between backward and step).
  // Otherwise drops what was accumulated on this rank.
  void zero_grad(bool set_to_none = true) override;
  // Waits until every gradient is reduced (and clipped, if that is an option). Call it before
  // reading or clipping gradients, on all ranks; step() then reduces and clips nothing twice, but
  // what a further backward() has added on any rank. With Adasum it only clips and averages here.
  void synchronize();

  // While the guard lives, backward() only accumulates on this rank. The first pass after it
  // (or step()) reduces the sum. Guards nest.
  [[nodiscard]] ScopeGuard no_sync();
  // While the guard lives, step() does not synchronize: for code that calls synchronize(), changes
  // gradients and steps. InvalidArgumentError with Adasum. It must not outlive the optimizer.
  [[nodiscard]] ScopeGuard skip_synchronize();

  int backward_passes_per_step() const;
  // From the next step on; collective. Throws InvalidArgumentError unless at least 1;
  // MismatchError, on every rank, if the ranks give different numbers.
  void set_backward_passes_per_step(int passes);

  // Those of the wrapped optimizer.
  std::vector<optim::ParamGroup>& param_groups() override { return inner_->param_groups(); }
  std::map<const void*, optim::ParamState>& state() override { return inner_->state(); }
  NamedTensors state_dict() override { return inner_->state_dict(); }
  void load_state_dict(const NamedTensors& state) override { inner_->load_state_dict(state); }
  // The wrapped optimizer's; the parameters are reduced too, under names like those of an optimizer
  // without names. On all ranks alike, between two steps.
  void add_param_group(optim::ParamGroup group) override;

 private:
  void check_reduced() const;
  void step_by_delta();
  void step_as_reduced();

  std::shared_ptr<optim::Optimizer> inner_;
  DistributedOptions options_;
  NamedTensors named_;  // the optimizer's parameters, in the order of its groups
  std::shared_ptr<TensorGradients> gradients_;
  std::shared_ptr<GradientReducer> reducer_;
  bool skips_synchronize_ = false;
};

// For loops that reduce by hand, between backward() and step(): every gradient there is becomes its
// average over the ranks (or what options.op says), all of them as one group. Parameters without a
// gradient are skipped, so all ranks of the set must have gradients for the same ones
// (MismatchError on every rank otherwise). Those of an Embedding with `sparse` stay rows, as in
// DistributedOptimizer. Blocks. An empty options.name is "average_gradients".
void average_gradients(const std::vector<Tensor>& params, const AllreduceOptions& options = {});
void average_gradients(const nn::Module& module, const AllreduceOptions& options = {});

}  // namespace hvd
