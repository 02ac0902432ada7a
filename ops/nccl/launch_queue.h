#pragma once

#include <nccl.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/ports/fence.h"
#include "ops/cuda/cuda_memory.h"
#include "ops/cuda/host_writes.h"
#include "ops/cuda/stream.h"
#include "ops/nccl/communicator.h"

namespace hvd::engine {

// Calls of all communicators of one device, begun one after another in the order of add(): NCCL
// wants one order on all ranks, and a communicator takes the next call only when the last is over.
// Three streams, which wait for each other's events: on one calls are packed, on one NCCL works, on
// one they are unpacked, so that neither packing nor unpacking keeps NCCL waiting. Used by the
// coordinator; polled, nothing waits.
class LaunchQueue {
 public:
  // What is to be enqueued, once, while `communicator` is settled.
  struct Call {
    std::shared_ptr<NcclCommunicator> communicator;
    std::vector<Fence> ready;               // come first; events hold back the streams alone
    std::function<void(CudaStream&)> pack;  // may be empty
    std::function<void(NcclCommunicator&, cudaStream_t)> begin;
    std::function<void(CudaStream&)> unpack;  // may be empty
    bool after_all = false;                   // the streams have to be empty first
    std::shared_ptr<NcclCommunicator> makes;  // settled before the call counts as over
    TimePoint begun = {};                     // when; not yet before
    bool over = false;                        // enqueued
  };

  // What NCCL may take to begin a call, and the streams for what was enqueued; zero = any time.
  LaunchQueue(int device, Duration limit)
      : packing_(std::make_shared<CudaStream>(device)),
        moving_(std::make_shared<CudaStream>(device)),
        unpacking_(std::make_shared<CudaStream>(device)),
        writes_(device),
        limit_(limit) {}

  // What was retired is freed if the device is through within a second, else it stays.
  ~LaunchQueue();
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  void add(std::shared_ptr<Call> call);
  // Begins what can be begun. Throws what a call failed with; it is over then.
  void pump();
  // A point past the calls that are over; wait() throws AbortedError if `communicator` was aborted.
  // `child`, made from it, may have called too; may be null.
  Fence fence(const std::shared_ptr<NcclCommunicator>& communicator,
              const std::shared_ptr<NcclCommunicator>& child = nullptr);
  // The same for a caller that polls it, so that poll_interval() is short until it is reached.
  Fence awaited_fence(const std::shared_ptr<NcclCommunicator>& communicator);
  // The same as it is, unwatched.
  Fence end_of_streams() const { return unpacking_->fence(); }
  // Copies host memory, which may change at once, to the device; calls begin past the fence.
  Fence write(const void* from, void* to, std::size_t bytes);
  // Memory of the device for calls that begin past end_of_packing(), and for what they pack.
  Buffer allocate(std::size_t bytes) const {
    return allocate_in_order(*packing_, bytes, {packing_, moving_, unpacking_});
  }
  Fence end_of_packing() const { return packing_->fence(); }
  // Keeps memory until no call is under way: to free it waits for the device, and a thread that
  // waits in CUDA for a call that a peer does not finish could not abort it.
  void retire(std::shared_ptr<const void> memory);
  // Looks after calls and what such fences wait for. Throws PeerLostError if a communicator failed
  // while its work was on the stream, StalledError if something takes too long; both abort the
  // communicator, which ends that work.
  void watch(TimePoint now);
  // How soon to look again; empty = nothing is under way.
  std::optional<Duration> poll_interval() const;

 private:
  struct InFlight {
    std::shared_ptr<NcclCommunicator> communicator;
    std::shared_ptr<NcclCommunicator> child;
    Fence fence;
    TimePoint since;
    bool awaited = false;
  };

  bool may_begin(Call& call);
  void begin(Call& call);
  void end(Call& call);
  void abort(NcclCommunicator& communicator);
  void free_retired();
  void check(NcclCommunicator& communicator, const char* what, Duration taken) const;

  const std::shared_ptr<CudaStream> packing_;
  const std::shared_ptr<CudaStream> moving_;
  // Past all that the others did for calls that are over.
  const std::shared_ptr<CudaStream> unpacking_;
  HostWrites writes_;
  const Duration limit_;
  std::deque<std::shared_ptr<Call>> calls_;
  std::deque<InFlight> in_flight_;  // in the order of the streams
  std::vector<std::shared_ptr<const void>> retired_;
  std::optional<Fence> past_retired_;  // once no call is under way
  Fence drained_;                      // of a call that wants empty streams
  bool draining_ = false;
};

}  // namespace hvd::engine
