#pragma once

#include <string>

#include "core/base/reduce_op.h"
#include "horovod_cpp/dist/world.h"
#include "horovod_cpp/tensor/tensor.h"

// Collectives on tensors. Common to all of them:
// - Calls of different ranks belong together by `name`, unique among this rank's calls of one kind
//   in flight (InvalidArgumentError). An empty name is numbered automatically: then all ranks must
//   make their unnamed calls of one kind in the same order.
// - Input must be contiguous host memory of any dtype; it may be used again once the call ended.
// - *_async calls return at once, and errors come from synchronize(): MismatchError (on every rank;
//   the job goes on) when ranks disagree on dtype, shape, op or root; StalledError, PeerLostError,
//   AbortedError when the job ended. The blocking forms are the async ones, synchronized.
// - Any thread; not recorded by autograd.
namespace hvd {

// The element-wise reduction over all ranks, of the input's shape and dtype and bitwise equal on
// every rank. float16 and bfloat16 accumulate in float32 and are rounded once; integer averages are
// truncated towards zero.
Tensor allreduce(const Tensor& tensor, ReduceOp op = ReduceOp::kAverage,
                 const std::string& name = "");
CollectiveHandle allreduce_async(const Tensor& tensor, ReduceOp op = ReduceOp::kAverage,
                                 const std::string& name = "");
// In place: the result overwrites `tensor`, which must not be touched until synchronize().
void allreduce_(Tensor& tensor, ReduceOp op = ReduceOp::kAverage, const std::string& name = "");
CollectiveHandle allreduce_async_(Tensor& tensor, ReduceOp op = ReduceOp::kAverage,
                                  const std::string& name = "");

// All ranks' tensors concatenated along the first axis, in rank order. First extents may differ (or
// be 0), the others and the dtype may not; scalars are InvalidArgumentError.
Tensor allgather(const Tensor& tensor, const std::string& name = "");
CollectiveHandle allgather_async(const Tensor& tensor, const std::string& name = "");

// The root's values on every rank; elsewhere the input gives shape and dtype only.
Tensor broadcast(const Tensor& tensor, int root_rank, const std::string& name = "");
CollectiveHandle broadcast_async(const Tensor& tensor, int root_rank, const std::string& name = "");
void broadcast_(Tensor& tensor, int root_rank, const std::string& name = "");
CollectiveHandle broadcast_async_(Tensor& tensor, int root_rank, const std::string& name = "");

// Horovod's spelling of the handle's methods.
inline bool poll(const CollectiveHandle& handle) {
  return handle.poll();
}
inline Tensor synchronize(const CollectiveHandle& handle) {
  return handle.synchronize();
}

}  // namespace hvd
