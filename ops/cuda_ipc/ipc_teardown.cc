#include "ops/cuda_ipc/ipc_teardown.h"

#include <thread>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/config/log.h"
#include "core/system/process.h"

namespace hvd::engine {
namespace {

constexpr Duration kPollInterval = std::chrono::microseconds(100);

}  // namespace

struct IpcTeardown::Rest {
  IpcSet::Remains set;
  std::shared_ptr<StagingQueue> queue;
  Fence passed;  // this rank's work
  std::vector<std::int64_t> all;
  std::int64_t mine = 0;
  std::unique_ptr<Operation> told;  // last: it goes first

  // Throws what keeps it from its end.
  bool advance() {
    if (!set.usable) throw AbortedError("the set failed");
    if (told == nullptr) {
      if (passed.state() == nullptr) passed = queue->stream().fence();
      if (!passed.reached()) return false;
      passed.wait();  // throws if the device failed
      all.resize(static_cast<std::size_t>(set.links->size()));
      set.links->close_peers();
      told = set.handshakes->exchange({&mine, 1}, all);
    }
    return told->advance();
  }
};

IpcTeardown::IpcTeardown(IpcSet::Remains set, std::shared_ptr<StagingQueue> queue)
    : rest_(std::make_shared<Rest>()) {
  rest_->set = std::move(set);
  rest_->queue = std::move(queue);
}

IpcTeardown::~IpcTeardown() {
  if (rest_ != nullptr) leak_until_exit(std::move(rest_));
}

bool IpcTeardown::advance() noexcept {
  if (rest_ == nullptr) return true;
  try {
    if (!rest_->advance()) return false;
    rest_.reset();
  } catch (...) {
    leak_until_exit(std::move(rest_));
  }
  return true;
}

IpcDevice::~IpcDevice() {
  const TimePoint deadline = Clock::now() + kGpuTeardownLimit;
  for (advance(); !failure_notices_.empty() && Clock::now() < deadline; advance()) {
    std::this_thread::sleep_for(kPollInterval);
  }
}

void IpcDevice::end(IpcSet::Remains set) {
  if (set.links == nullptr && set.connection == nullptr) return;  // nothing was shared
  failure_notices_.push_back(std::make_unique<IpcTeardown>(std::move(set), queue_));
  advance();
}

void IpcDevice::warn(const std::string& why) {
  if (std::exchange(warned_, true)) return;
  log(LogLevel::kWarning,
      "tensors of GPUs go by way of host memory, because their ranks cannot share GPU memory: " +
          why);
}

void IpcDevice::advance() noexcept {
  std::erase_if(failure_notices_, [](const auto& notice) { return notice->advance(); });
}

}  // namespace hvd::engine
