#pragma once

#include <cstdint>

#include "horovod_cpp/distributed/collectives/process_set.h"
#include "horovod_cpp/nn/layers/normalization.h"

namespace hvd {
namespace nn {

// BatchNorm whose training uses the statistics of all ranks' batches, as if they were one batch:
// outputs, gradients and running statistics are those of BatchNorm over the joined batch within
// rounding, however unevenly its examples lie on the ranks (a rank may even have none).
//
//   SyncBatchNorm::convert_sync_batchnorm(*model);
//
// Takes [n, num_features, ...] of float32 or float64. Training communicates: one allreduce of
// float64 [sum, sum of squares, count] in forward and, if the input wants a gradient, one of two
// sums in backward; all ranks of the set must make both, in the same order. They are named by the
// layer's path in its model. Evaluation does not communicate. Gradients of weight and bias are this
// rank's own, like all others, and are reduced with them. On a rank outside the set, and in a set
// of one, it is an ordinary BatchNorm. Can be made before init(); training needs it.
class SyncBatchNorm : public BatchNorm {
 public:
  explicit SyncBatchNorm(std::int64_t num_features, const BatchNormOptions& options = {},
                         ProcessSet process_set = {});

  // Lets every BatchNorm in `module` (itself included) train on the statistics of all ranks, in
  // place: parameters, buffers, names and classes stay, so that optimizers and typed members of the
  // model do too. Returns `module`.
  static Module& convert_sync_batchnorm(Module& module, const ProcessSet& process_set = {});
};

}  // namespace nn

using nn::SyncBatchNorm;

}  // namespace hvd
