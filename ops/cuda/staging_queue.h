#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/ports/collective.h"
#include "ops/cuda/cuda_memory.h"
#include "ops/cuda/host_writes.h"
#include "ops/cuda/pinned_pool.h"
#include "ops/cuda/stream.h"

namespace hvd::engine {

// Operations on a device's memory that other memory does for it: what goes in is copied to pinned
// host memory, a host operation runs there, what comes out is copied back. Operations start on the
// host in the order of add(), whichever is polled first, because all ranks have that order. Used by
// the coordinator; polled, nothing waits.
class StagingQueue {
 public:
  struct Copy {
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
  };

  struct Call {
    std::vector<Copy> in;  // from the device
    std::function<std::unique_ptr<Operation>()> start;
    std::vector<Copy> out;     // to the device
    Buffer memory;             // pinned: what the copies use
    std::vector<Fence> ready;  // foreign fences that come first
    Fence arrived;
    bool copying = false;
    std::unique_ptr<Operation> running;  // on the host
    OperationStats stats;                // of what ran there
    bool over = false;                   // the copies to the device are enqueued
  };

  explicit StagingQueue(int device)
      : stream_(std::make_shared<CudaStream>(device)), memory_(device), writes_(device) {}

  void add(std::shared_ptr<Call> call);
  // Does what can be done for `call` and those before it; true when it is over. Throws what its
  // operation does.
  bool advance(Call& call);
  // While copies to the host are under way nothing rings; empty = none are.
  std::optional<Duration> poll_interval() const;
  CudaStream& stream() noexcept { return *stream_; }
  // For what is put on the stream from now on, and its caller.
  Buffer allocate_result(std::size_t bytes) const {
    return allocate_in_order(*stream_, bytes, {stream_});
  }
  // Copies host memory, which may change at once, to the device in the stream's order.
  void write(const void* from, void* to, std::size_t bytes) {
    writes_.write(*stream_, from, to, bytes);
  }
  // For Call::memory.
  PinnedPool& memory() noexcept { return memory_; }

 private:
  void start_what_arrived();
  void copy(const std::vector<Copy>& copies, cudaMemcpyKind kind);

  const std::shared_ptr<CudaStream> stream_;
  PinnedPool memory_;
  HostWrites writes_;
  std::deque<std::shared_ptr<Call>> waiting_;  // not started on the host
};

}  // namespace hvd::engine
