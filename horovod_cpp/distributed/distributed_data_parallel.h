#pragma once

#include <memory>

#include "horovod_cpp/distributed/collectives/compression.h"
#include "horovod_cpp/distributed/collectives/process_set.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/nn/module.h"

namespace hvd {

struct DistributedDataParallelOptions {
  // Before each forward in training, outside no_sync(), buffers (running statistics) become
  // those of the lowest rank of the set.
  bool broadcast_buffers = true;
  // From the third backward() on gradients lie in memory that the ranks share and are reduced
  // there, which changes no bit; see DistributedOptions.
  bool gradient_as_bucket_view = true;
  // Gradients are reduced together in buckets of at most this many MiB, filled in reverse parameter
  // order, about that of backward. 0: each starts on its own as soon as it is there, and the engine
  // packs what is ready at the same time.
  double bucket_cap_mb = 0;
  Compression compression = {};
  ProcessSet process_set = {};
};

// A module whose gradients are averages over the ranks when backward() returns, so that any
// optimizer keeps the ranks equal:
//
//   auto model = std::make_shared<Net>();
//   DistributedDataParallel ddp(model);
//   optim::SGD optimizer(ddp.parameters());
//   cross_entropy(ddp(images), labels).backward();
//   optimizer.step();
//
// Gradients travel while the rest of backward() runs; its end waits for them. Parameters that a
// pass does not use count as zeros and need no option: backward() through the output reduces all
// of them on every rank, so ranks may use different ones. Every rank must call backward() equally
// often. A DistributedOptimizer around the optimizer is refused: it reduces the same gradients.
//
// The gradient is the average of the ranks' gradients: with a mean loss and equal batches that of
// the joined batch. Over several backward() passes before step() gradients add up as they do
// without ranks.
//
// If backward() throws, the next forward() or backward() on that rank takes part in the reductions
// that are left, for the other ranks' sake, and the gradients of the pass are dropped.
//
// Names, and so checkpoints, are those of the module inside, without PyTorch's prefix "module.":
// a file saved by a training over ranks loads into the plain model and back.
//
// Used by one thread. Collective over the set: constructor, forward() in training and backward().
// All ranks make their instances in the same order.
class DistributedDataParallel : public nn::Module {
 public:
  // Sends parameters and buffers of the set's lowest rank to the others. Throws MismatchError on
  // every rank when the modules differ in names, shapes or dtypes, InvalidArgumentError without a
  // module, on a negative bucket_cap_mb, or before init().
  explicit DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                   DistributedDataParallelOptions options = {});
  ~DistributedDataParallel() override;

  Tensor forward(const Tensor& input) override;
  // The two halves of forward() around the module's: for modules that take or return other things
  // than one Tensor. finish_forward() returns `output`, whose backward() then reduces.
  void begin_forward();
  Tensor finish_forward(const Tensor& output);

  const std::shared_ptr<nn::Module>& module() const { return module_; }

  // While the guard lives, backward() only accumulates on this rank and forward() leaves buffers
  // alone. The first pass after it reduces the sum. Guards nest.
  [[nodiscard]] ScopeGuard no_sync();

 private:
  void compare_options() const;
  void broadcast_buffers();

  class Reduction;  // outlives this object while a graph refers to it

  std::shared_ptr<nn::Module> module_;
  DistributedDataParallelOptions options_;
  std::shared_ptr<Reduction> reduction_;
};

}  // namespace hvd
