#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/tensor_view.h"
#include "core/base/thread_annotations.h"
#include "core/negotiate/messages/request.h"
#include "core/runtime/handle.h"
#include "core/runtime/submission.h"

namespace hvd::engine {

// Communication memory of one size on every rank of a process set, of the host or of a device.
// Tensors that lie in it at the same place on all ranks are reduced there, without being packed;
// whatever else is done with it is as with any memory. For one thread.
class Arena {
 public:
  // `number` 0: of no use to the backend, and without memory.
  Arena(ArenaNumber number, ProcessSetId set, Lease memory);

  // Whether there is memory, in which tensors are reduced where they lie; equal on all ranks.
  bool shared() const { return number_ != 0; }
  std::size_t bytes() const { return memory_.view.bytes(); }
  // Where the next piece begins.
  std::size_t used() const { return used_; }

  // The next `numel` elements, in order, aligned to 64 bytes, uninitialised; the lease keeps the
  // arena's memory. Ranks that take the same pieces get them at the same places. Throws
  // InvalidArgumentError when there is no room.
  Lease take(std::int64_t numel, DType dtype);

 private:
  friend class ArenaRegistry;

  const ArenaNumber number_;
  const ProcessSetId set_;
  const Lease memory_;
  std::size_t used_ = 0;
};

class ArenaRegistry;

// An arena that the other ranks may still have to ask for. For one thread.
class ArenaHandle {
 public:
  ArenaHandle() = default;  // empty: done() is true, wait() gives null
  ArenaHandle(Handle handle, ProcessSetId set, Device device,
              std::shared_ptr<ArenaRegistry> registry)
      : handle_(std::move(handle)), set_(set), device_(device), registry_(std::move(registry)) {}

  // True when wait() would not block.
  bool done() const { return handle_.done(); }
  // Throws what it failed with.
  std::shared_ptr<Arena> wait();

 private:
  Handle handle_;
  ProcessSetId set_ = kWorldSet;
  Device device_;
  std::shared_ptr<ArenaRegistry> registry_;
  std::shared_ptr<Arena> arena_;
};

// The arenas of a Runtime: tells the others where what is submitted lies. Any thread.
class ArenaRegistry {
 public:
  void add(const Arena& arena);
  // Fills in the place of an allreduce all of whose tensors are reduced in place, in one arena of
  // its process set.
  void place(Submission& submission) const;

 private:
  struct Entry {
    ArenaNumber number = 0;
    ProcessSetId set = kWorldSet;
    DeviceKind device = DeviceKind::kCpu;
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::weak_ptr<const void> memory;
  };
  static bool contains(const Entry& entry, const Part& part);

  std::atomic<bool> any_{false};
  mutable Mutex mutex_;
  std::vector<Entry> entries_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd::engine
