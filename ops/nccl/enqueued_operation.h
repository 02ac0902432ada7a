#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/ports/collective.h"
#include "ops/nccl/launch_queue.h"

namespace hvd::engine {

// A call of a LaunchQueue as the port sees it: finished when it is enqueued.
class EnqueuedOperation : public Operation {
 public:
  // `bytes`: of this rank's contribution, as it travels.
  EnqueuedOperation(std::shared_ptr<LaunchQueue> queue, std::shared_ptr<LaunchQueue::Call> call,
                    std::size_t bytes)
      : queue_(std::move(queue)), call_(std::move(call)), bytes_(bytes) {}

  bool advance() override {
    if (!call_->over) queue_->pump();
    return call_->over;
  }
  OperationStats stats() const override { return {.packed_bytes = bytes_}; }

 protected:
  // Of a call that is over.
  Fence awaited_fence() const { return queue_->awaited_fence(call_->communicator); }

 private:
  std::shared_ptr<LaunchQueue> queue_;
  std::shared_ptr<LaunchQueue::Call> call_;
  std::size_t bytes_;
};

// Numbers of the host on their way through the device.
struct ExchangeStaging {
  Buffer host;            // pinned: at its begin this rank's numbers
  Buffer device;          // the same
  std::size_t begin = 0;  // of what comes of them; bytes
  std::size_t mine_bytes = 0;
  std::size_t all_bytes = 0;
};

// Finished when `all` is filled.
class ExchangeOperation final : public EnqueuedOperation {
 public:
  ExchangeOperation(std::shared_ptr<LaunchQueue> queue, std::shared_ptr<LaunchQueue::Call> call,
                    std::shared_ptr<ExchangeStaging> staging, std::span<std::int64_t> all)
      : EnqueuedOperation(std::move(queue), std::move(call), staging->mine_bytes),
        staging_(std::move(staging)),
        all_(all) {}

  bool advance() override;

 private:
  std::shared_ptr<ExchangeStaging> staging_;
  std::span<std::int64_t> all_;
  Fence arrived_;
  bool done_ = false;
};

}  // namespace hvd::engine
