#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/staging_queue.h"
#include "ops/cuda_ipc/ipc_set.h"

namespace hvd::engine {

// The end of a set. CUDA wants memory to be closed wherever it was opened before it is freed, so
// the ranks close each other's, tell each other, and then free. Where that fails, because the
// device or another rank does not answer, memory stays until the process ends.
class IpcTeardown {
 public:
  // `queue` has the stream that the set used.
  IpcTeardown(IpcSet::Remains set, std::shared_ptr<StagingQueue> queue);
  // If it is not over, it is over now, and memory stays.
  ~IpcTeardown();
  IpcTeardown(const IpcTeardown&) = delete;
  IpcTeardown& operator=(const IpcTeardown&) = delete;

  // Polled, nothing waits; true when it is over.
  bool advance() noexcept;

 private:
  struct Rest;
  std::shared_ptr<Rest> rest_;  // nothing: it is over
};

// What the sets of a device have in common: its stream, and sets that have not ended everywhere.
class IpcDevice {
 public:
  explicit IpcDevice(std::shared_ptr<StagingQueue> queue) : queue_(std::move(queue)) {}
  // Waits up to a second for the failure notices.
  ~IpcDevice();
  IpcDevice(const IpcDevice&) = delete;
  IpcDevice& operator=(const IpcDevice&) = delete;

  CudaStream& stream() noexcept { return queue_->stream(); }
  void end(IpcSet::Remains set);
  void advance() noexcept;
  // Says once why sets go by way of the host.
  void warn(const std::string& why);

 private:
  std::shared_ptr<StagingQueue> queue_;
  std::vector<std::unique_ptr<IpcTeardown>> failure_notices_;
  bool warned_ = false;
};

}  // namespace hvd::engine
