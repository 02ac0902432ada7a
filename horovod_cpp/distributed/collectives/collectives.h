#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/thread_annotations.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/distributed/collectives/collective_handle.h"
#include "horovod_cpp/distributed/collectives/options.h"
#include "horovod_cpp/tensor/tensor.h"

// Collectives on tensors. Common to all of them:
// - All ranks of `process_set` (by default: of the job) call it; another rank that does gets
//   InvalidArgumentError. Ranks are numbers of the job, also inside a set.
// - Calls of different ranks belong together by kind, set and `name`, unique among this rank's
//   calls of one kind in flight (InvalidArgumentError). A name that begins with / is for calls of
//   all kinds: if ranks make different ones under it, that is a MismatchError. An empty name is
//   numbered automatically: then all ranks must make their unnamed calls of one kind and set in the
//   same order. A join restarts the count.
//   A name may be used again when its call has ended, which the handle reports (poll(),
//   synchronize()); before, that is an InvalidArgumentError. Once all copies of the handle are
//   dropped it may be used again at any time: the calls run one after another, in the order in
//   which they were made. shutdown() does not wait for calls that wait for their name.
// - Input must be contiguous memory of any dtype; it may be used again once the call ended. GPU
//   memory (Tensor::wrap_on()) must belong to the GPU that this rank's collectives use
//   (HVD_GPU_OPERATIONS; UnsupportedError otherwise): it is read after what is on its stream at the
//   call, and a call has ended when its results are in the device's memory. core/base/reduction.h
//   says which reductions a dtype has; others are InvalidArgumentError.
// - The form with an underscore works in place: the result overwrites the tensor, which must not be
//   touched until the call ended. The others leave their input as it is.
// - Grouped forms take several tensors and run them as one: all or none are submitted, all fail
//   together. Dtypes may differ; then there is one group per dtype, submitted together.
// - *_async forms return at once, and errors come from synchronize(): MismatchError (on every rank;
//   the job goes on) when ranks disagree on dtype, shape, op, root, scale or compression;
//   StalledError, PeerLostError, AbortedError when the job ended. The blocking forms are the async
//   ones, synchronized.
// - Any thread; not recorded by autograd.
namespace hvd {

// -- the element-wise reduction, of the input's shape and dtype and bitwise equal on every rank.
// float16 and bfloat16 accumulate in float32 and are rounded once; integer averages are truncated
// towards zero.
Tensor allreduce(const Tensor& tensor, const AllreduceOptions& options = {});
CollectiveHandle allreduce_async(const Tensor& tensor, const AllreduceOptions& options = {});
void allreduce_(const Tensor& tensor, const AllreduceOptions& options = {});
CollectiveHandle allreduce_async_(const Tensor& tensor, const AllreduceOptions& options = {});
std::vector<Tensor> grouped_allreduce(const std::vector<Tensor>& tensors,
                                      const AllreduceOptions& options = {});
GroupHandle grouped_allreduce_async(const std::vector<Tensor>& tensors,
                                    const AllreduceOptions& options = {});
void grouped_allreduce_(const std::vector<Tensor>& tensors, const AllreduceOptions& options = {});
GroupHandle grouped_allreduce_async_(const std::vector<Tensor>& tensors,
                                     const AllreduceOptions& options = {});
// `outputs`: where the results go, each like its tensor, or that tensor itself, but no other one.
GroupHandle grouped_allreduce_into_async(const std::vector<Tensor>& outputs,
                                         const std::vector<Tensor>& tensors,
                                         const AllreduceOptions& options = {});

// The reduction on the root; an undefined tensor elsewhere.
Tensor reduce(const Tensor& tensor, int root_rank, const ReduceOptions& options = {});
CollectiveHandle reduce_async(const Tensor& tensor, int root_rank,
                              const ReduceOptions& options = {});

// This rank's part of the reduction, cut along the first axis in rank order; of n rows and k ranks,
// the first n % k ranks get one row more. Scalars are InvalidArgumentError, Adasum is
// UnsupportedError.
Tensor reducescatter(const Tensor& tensor, const ReduceOptions& options = {});
CollectiveHandle reducescatter_async(const Tensor& tensor, const ReduceOptions& options = {});
std::vector<Tensor> grouped_reducescatter(const std::vector<Tensor>& tensors,
                                          const ReduceOptions& options = {});
GroupHandle grouped_reducescatter_async(const std::vector<Tensor>& tensors,
                                        const ReduceOptions& options = {});

// -- all ranks' tensors concatenated along the first axis, in rank order. First extents may differ
// (or be 0), the others and the dtype may not; scalars are InvalidArgumentError.
Tensor allgather(const Tensor& tensor, const CollectiveOptions& options = {});
CollectiveHandle allgather_async(const Tensor& tensor, const CollectiveOptions& options = {});
std::vector<Tensor> grouped_allgather(const std::vector<Tensor>& tensors,
                                      const CollectiveOptions& options = {});
GroupHandle grouped_allgather_async(const std::vector<Tensor>& tensors,
                                    const CollectiveOptions& options = {});

// The same on the root alone; an undefined tensor elsewhere.
Tensor gather(const Tensor& tensor, int root_rank, const CollectiveOptions& options = {});
CollectiveHandle gather_async(const Tensor& tensor, int root_rank,
                              const CollectiveOptions& options = {});

// -- the root's values on every rank; elsewhere the input gives shape and dtype only. The root must
// be in the set (InvalidArgumentError).
Tensor broadcast(const Tensor& tensor, int root_rank, const CollectiveOptions& options = {});
CollectiveHandle broadcast_async(const Tensor& tensor, int root_rank,
                                 const CollectiveOptions& options = {});
void broadcast_(const Tensor& tensor, int root_rank, const CollectiveOptions& options = {});
CollectiveHandle broadcast_async_(const Tensor& tensor, int root_rank,
                                  const CollectiveOptions& options = {});
std::vector<Tensor> grouped_broadcast(const std::vector<Tensor>& tensors, int root_rank,
                                      const CollectiveOptions& options = {});
GroupHandle grouped_broadcast_async(const std::vector<Tensor>& tensors, int root_rank,
                                    const CollectiveOptions& options = {});
void grouped_broadcast_(const std::vector<Tensor>& tensors, int root_rank,
                        const CollectiveOptions& options = {});
GroupHandle grouped_broadcast_async_(const std::vector<Tensor>& tensors, int root_rank,
                                     const CollectiveOptions& options = {});

// This rank's rows of the root's tensor, cut by the root's `splits` (they must sum up to its rows;
// InvalidArgumentError). Elsewhere the input gives dtype and row shape only, and `splits` are
// ignored. Scalars are InvalidArgumentError.
Tensor scatter(const Tensor& tensor, int root_rank, const SplitOptions& options = {});
CollectiveHandle scatter_async(const Tensor& tensor, int root_rank,
                               const SplitOptions& options = {});

// -- row i of the part for rank r goes to rank r: each rank gets the rows that all ranks sent it,
// in rank order. `splits` must sum up to the tensor's rows; without them the rows must divide
// evenly (InvalidArgumentError). Scalars are InvalidArgumentError.
AlltoallResult alltoall(const Tensor& tensor, const SplitOptions& options = {});
AlltoallHandle alltoall_async(const Tensor& tensor, const SplitOptions& options = {});

// -- returns when all ranks of the set have called it. What was submitted before may still run.
void barrier(const BarrierOptions& options = {});
BarrierHandle barrier_async(const BarrierOptions& options = {});

// -- this rank has no more data: until all ranks of the set have joined, it takes part in what the
// others submit with neutral elements (0 for sums, no rows for allgather, ...) and averages divide
// as `average` says. Returns, on every rank, the rank that joined last, after what this rank took
// part in has ended here; then calls are possible again. Nothing of this rank may be in flight in
// the set (InvalidArgumentError), and nothing may be submitted there before it ended. A broadcast
// from a rank that has joined is a MismatchError for the others. For training with uneven numbers
// of batches see distributed_optimizer.h.
int join(const JoinOptions& options = {});
JoinHandle join_async(const JoinOptions& options = {});

// -- one tensor from one rank to another. Transfers between two ranks with one tag meet in the
// order in which each submitted them; both must have the same dtype and number of elements
// (MismatchError on both). No data moves before both have been submitted. recv overwrites `tensor`.
// To or from this rank itself is InvalidArgumentError.
void send(const Tensor& tensor, int to, const PointToPointOptions& options = {});
CollectiveHandle isend(const Tensor& tensor, int to, const PointToPointOptions& options = {});
void recv(const Tensor& tensor, int from, const PointToPointOptions& options = {});
CollectiveHandle irecv(const Tensor& tensor, int from, const PointToPointOptions& options = {});

// -- gradients that are zero except in some rows, as Horovod reduces them: the ranks gather row
// numbers and values, so that what travels grows with the rows that were read, not with the table

// The reduced gradient of a call that start_sparse_allreduce() began with these options.
RowGradient row_gradient_of(const CallResult& gathered, const ReduceOptions& options);

// The result on its way; as CollectiveHandle.
class SparseHandle {
 public:
  SparseHandle(std::shared_ptr<CallInFlight> call, ReduceOptions options)
      : call_(std::move(call)), options_(std::move(options)) {}
  bool poll() const { return call_->wait_until(Clock::now()); }
  RowGradient synchronize() const;
  const std::shared_ptr<CallInFlight>& call() const { return call_; }

 private:
  struct Sum {
    Mutex mutex;
    std::optional<RowGradient> gradient HVD_GUARDED_BY(mutex);  // once it was asked for
  };
  std::shared_ptr<CallInFlight> call_;
  ReduceOptions options_;
  std::shared_ptr<Sum> sum_ = std::make_shared<Sum>();
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
