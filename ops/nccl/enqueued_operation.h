#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/runtime/collective.h"
#include "ops/host/mapped_arena.h"
#include "ops/nccl/launch_queue.h"
#include "ops/nccl/memory.h"

namespace hvd {

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
  const LaunchQueue& queue() const { return *queue_; }

 private:
  std::shared_ptr<LaunchQueue> queue_;
  std::shared_ptr<LaunchQueue::Call> call_;
  std::size_t bytes_;
};

// Numbers of the host on their way through the device.
struct ExchangeStaging {
  Buffer host;    // pinned: this rank's numbers, then everyone's
  Buffer device;  // the same
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

// Finished when `memory` is registered: then `made` is filled in.
class MakeNcclArena final : public EnqueuedOperation {
 public:
  MakeNcclArena(std::shared_ptr<LaunchQueue> queue, std::shared_ptr<LaunchQueue::Call> call,
                host::MappedArenaPtr arena, const Buffer& memory, ArenaMemory& made)
      : EnqueuedOperation(std::move(queue), std::move(call), 0),
        arena_(std::move(arena)),
        data_(memory.data),
        bytes_(memory.bytes),
        made_(made) {}

  bool advance() override;

 private:
  host::MappedArenaPtr arena_;
  void* data_;
  std::size_t bytes_;
  ArenaMemory& made_;
};

}  // namespace hvd
