#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/base/reduce_op.h"
#include "core/base/status.h"
#include "core/runtime/runtime.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// A collective call in flight. Copies share it. Dropping all of them does not cancel the call.
class CollectiveHandle {
 public:
  CollectiveHandle() = default;  // empty: done, with an undefined result
  // `output` is undefined for an allgather, whose result the engine allocates; `row_shape` is then
  // the shape of one row.
  CollectiveHandle(Handle handle, Tensor output, Shape row_shape = {})
      : handle_(std::move(handle)), output_(std::move(output)), row_shape_(std::move(row_shape)) {}

  // True when synchronize() would not block.
  bool poll() const { return handle_.done(); }
  // Waits at most this long; true when synchronize() would not block.
  bool wait_for(Duration limit) const { return handle_.wait_for(limit); }
  // Waits for the result; throws what the call failed with. May be called again.
  Tensor synchronize() const;

 private:
  Handle handle_;
  Tensor output_;
  Shape row_shape_;
};

// Waits for every one of them, even if some fail, so that no tensor is in flight any more; then
// throws what the first one that failed did.
void synchronize_all(const std::vector<CollectiveHandle>& handles);

// The ranks of a job and the collectives among them, on tensors. The functions of collectives.h use
// the World that init() made; a test makes several in one process. Any thread.
class World {
 public:
  explicit World(std::unique_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}

  const Topology& topology() const noexcept { return runtime_->topology(); }

  // `output` may be `input` (in place), else it must have its shape and dtype. An empty name is
  // numbered automatically. See collectives.h for the rest of the contract.
  CollectiveHandle allreduce_async(const Tensor& input, const Tensor& output, ReduceOp op,
                                   const std::string& name);
  CollectiveHandle broadcast_async(const Tensor& input, const Tensor& output, int root_rank,
                                   const std::string& name);
  CollectiveHandle allgather_async(const Tensor& input, const std::string& name);

  // Leaves the job in order. Idempotent.
  void shutdown() { runtime_->shutdown(); }
  // Why the job stopped; ok while it runs.
  Status stopped() const { return runtime_->stopped(); }

 private:
  Request named_request(CollectiveKind kind, const Tensor& input, const std::string& name);
  CollectiveHandle submit(Request request, const Tensor& input, const Tensor& output);

  std::unique_ptr<Runtime> runtime_;
  // Unnamed calls so far, by kind: equal on all ranks that call in the same order.
  std::array<std::atomic<std::uint64_t>, kCollectiveKindCount> unnamed_{};
};

}  // namespace hvd
