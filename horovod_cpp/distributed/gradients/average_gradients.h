#pragma once

#include <vector>

#include "horovod_cpp/distributed/collectives/options.h"
#include "horovod_cpp/nn/module.h"

namespace hvd {

// For loops that reduce by hand, between backward() and step(): every gradient there is becomes its
// average over the ranks (or what options.op says), all of them as one group. Parameters without a
// gradient are skipped, so all ranks of the set must have gradients for the same ones
// (MismatchError on every rank otherwise). Those of an Embedding with `sparse` stay rows, as in
// DistributedOptimizer. Blocks. An empty options.name is "average_gradients".
void average_gradients(const std::vector<Tensor>& params, const AllreduceOptions& options = {});
void average_gradients(const nn::Module& module, const AllreduceOptions& options = {});

}  // namespace hvd
