#pragma once

#include <nccl.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/clock.h"
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

  // What the stream may take for work that was enqueued; zero = any time.
  LaunchQueue(int device, Duration limit) : stream_(device), limit_(limit) {}

  void add(std::shared_ptr<Call> call);
  // Begins what can be begun. Throws what a call failed with; it is over then.
  void pump();
  // A point past what is enqueued; wait() throws AbortedError if `communicator` was aborted.
  Fence fence(const std::shared_ptr<NcclCommunicator>& communicator);
  // Looks after what such fences wait for. Throws PeerLostError if a communicator failed while its
  // work was on the stream, StalledError if the work takes too long; both abort the communicator,
  // which ends that work.
  void watch(TimePoint now);
  // How soon to look again; empty = nothing is under way.
  std::optional<Duration> poll_interval() const;
  CudaStream& stream() noexcept { return stream_; }

 private:
  struct InFlight {
    std::shared_ptr<NcclCommunicator> communicator;
    Fence fence;
    TimePoint since;
  };

  bool may_begin(Call& call);
  void check(const InFlight& work, TimePoint now) const;

  CudaStream stream_;
  const Duration limit_;
  std::deque<std::shared_ptr<Call>> calls_;
  std::deque<InFlight> in_flight_;  // in the order of the stream
  Fence drained_;                   // of a call that wants an empty stream
  bool draining_ = false;
};

}  // namespace hvd
