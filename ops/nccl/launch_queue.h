#pragma once

#include <nccl.h>

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/runtime/fence.h"
#include "ops/cuda/stream.h"
#include "ops/nccl/communicator.h"

namespace hvd {

// Calls of all communicators of one device, begun one after another in the order of add(): NCCL
// wants one order on all ranks, and a communicator takes the next call only when the last is over.
// Used by the coordinator; polled, nothing waits.
class LaunchQueue {
 public:
  // What is to be called, once: with the stream, while `communicator` is settled.
  struct Call {
    std::shared_ptr<NcclCommunicator> communicator;
    std::function<void(NcclCommunicator&, cudaStream_t)> begin;
    std::function<void(cudaStream_t)> end;    // behind it on the stream; may be empty
    std::vector<Fence> ready;                 // foreign fences that come first
    bool after_all = false;                   // the stream has to be empty first
    std::shared_ptr<NcclCommunicator> makes;  // settled before the call counts as over
    bool begun = false;
    bool over = false;  // enqueued
  };

  explicit LaunchQueue(int device) : stream_(device) {}

  void add(std::shared_ptr<Call> call);
  // Begins what can be begun. Throws what a call failed with; it is over then.
  void pump();
  CudaStream& stream() noexcept { return stream_; }

 private:
  bool may_begin(Call& call);

  CudaStream stream_;
  std::deque<std::shared_ptr<Call>> calls_;
  Fence drained_;  // of a call that wants an empty stream
  bool draining_ = false;
};

}  // namespace hvd
