#pragma once

#include <memory>
#include <utility>

#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/distributed/collectives/collective_handle.h"
#include "horovod_cpp/distributed/collectives/options.h"

// Reduction of gradients that are zero but for some rows, as Horovod does it: the ranks gather row
// numbers and values, so that what travels grows with the rows that were read, not with the table.
namespace hvd {

// The reduced gradient of a call that start_sparse_allreduce() began.
RowGradient row_gradient_of(const CallResult& result);

// The result on its way; as CollectiveHandle.
class SparseHandle {
 public:
  explicit SparseHandle(std::shared_ptr<CallInFlight> call) : call_(std::move(call)) {}
  bool poll() const { return call_->wait_until(Clock::now()); }
  RowGradient synchronize() const { return row_gradient_of(call_->result({})); }

 private:
  std::shared_ptr<CallInFlight> call_;
};

// `gradient.rows` int64 [k], `gradient.values` [k, ...] of a floating dtype; k may differ by rank
// and be 0, the other extents and the dtype may not (MismatchError on every rank). The result has
// each row once, ascending, and the same bits on every rank: added up in rank order, for Average
// divided by the number of ranks that have not joined. Other operations are InvalidArgumentError.
// A rank that passes a dense tensor to allreduce() under the same name meets this call's allgather:
// MismatchError on every rank.
RowGradient sparse_allreduce(const RowGradient& gradient, const ReduceOptions& options = {});
SparseHandle sparse_allreduce_async(const RowGradient& gradient, const ReduceOptions& options = {});
std::shared_ptr<CallInFlight> start_sparse_allreduce(const RowGradient& gradient,
                                                     const ReduceOptions& options);

}  // namespace hvd
