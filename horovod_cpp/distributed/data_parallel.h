#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "horovod_cpp/nn/module.h"

namespace hvd {

// A module that runs on `replicas` threads of this process, each with a part of the batch:
//
//   DataParallel model(std::make_shared<Net>(), 4);
//   cross_entropy(model(images), labels).backward();   // both directions run in parallel
//
// The batch is cut along axis 0 in order; of n rows and k replicas the first n % k get one more,
// and replicas without rows rest. Outputs are joined in the same order. Needs no init().
//
// There is one module, which all threads run at the same time: they read the same parameters, each
// sums gradients of its own, and these are added up in the order of the replicas, so that equal
// runs give equal bits. Batch normalisation sees its replica's rows; running statistics are those
// of replica 0, whose buffers are the module's own, while the others have copies for the time of a
// forward. What else a forward writes into its module must stand being written by several threads.
// Random numbers (dropout) are drawn from streams of the replicas' own, which depend on the
// caller's default_generator(). Not for modules that communicate, like SyncBatchNorm.
//
// An error in a replica is thrown by forward() or backward() after all threads are done: of this
// library as the same class, with the replica and its rows before the message; any other
// std::exception as a std::runtime_error that has the original nested. Of several, that of the
// lowest replica. One backward() per forward: retain_graph does not reach into the replicas.
//
// Names are those of the module inside, without a prefix. Used by one thread.
class DataParallel : public nn::Module {
 public:
  // Throws InvalidArgumentError without a module or unless replicas >= 1.
  DataParallel(std::shared_ptr<nn::Module> module, int replicas);

  // Throws InvalidArgumentError on a scalar and on an empty batch.
  Tensor forward(const Tensor& input) override;

  const std::shared_ptr<nn::Module>& module() const { return module_; }
  int replicas() const { return replicas_; }

 private:
  std::shared_ptr<nn::Module> module_;
  int replicas_;
};

}  // namespace hvd
