#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/doorbell.h"
#include "core/ports/fence.h"
#include "core/runtime/batch.h"

namespace hvd::engine {

// Waits for the fences of asynchronous devices so that the coordinator never does. The thread
// starts with the first batch: a host-only Runtime has none.
class CompletionThread {
 public:
  struct Ended {
    std::unique_ptr<Batch> batch;
    Status status;  // what the fence's wait() threw; then the device need not be past it
    Fence fence;
  };

  // `reached` is called on the completion thread for a batch whose fence was reached, and never
  // once this object is gone; `bell` rings after each batch that ended and must outlive the thread.
  CompletionThread(std::function<void(Batch&)> reached, Doorbell& bell);
  // A thread that hangs in a device for longer than a second is left behind, with its batches.
  ~CompletionThread();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  void add(std::unique_ptr<Batch> batch, Fence fence);
  // One that was aborted: its fence is waited for before it goes, and `reached` is not called.
  void add_aborted(std::unique_ptr<Batch> batch, Fence fence);
  // The next batch that ended, in the order of add().
  std::optional<Ended> next_ended();
  // Waits until no fence is waited for; false after `limit`.
  bool drain(Duration limit);

 private:
  struct Shared;
  void push(std::unique_ptr<Batch> batch, Fence fence, bool aborted);

  std::shared_ptr<Shared> shared_;
  std::size_t added_ = 0;  // and not taken from next_ended()
  std::thread thread_;
};

}  // namespace hvd::engine
