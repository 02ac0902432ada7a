#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/runtime/submission.h"
#include "horovod_cpp/distributed/collectives/collective_handle.h"
#include "horovod_cpp/distributed/collectives/options.h"

namespace hvd {

// One tensor of an allreduce, with what a compression keeps for it between calls.
struct AllreduceTensor {
  Tensor input;
  Tensor output;  // may be the input
  // What int8 lost, float32 of the input's shape; undefined = it is forgotten.
  Tensor residual = {};
  // Null = the tensor travels as options.compression.wire() says.
  std::shared_ptr<TensorCompressor> compressor = {};
};

// Starts the first round of all of them, which are moved from, as one group.
// options.compression.compressor() is not asked: the tensors have theirs. `flagged`: see Request.
std::shared_ptr<CallInFlight> start_allreduce(std::span<AllreduceTensor> tensors,
                                              const AllreduceOptions& options,
                                              std::shared_ptr<const CallLabels> labels = nullptr,
                                              bool flagged = false);

}  // namespace hvd
