#include "horovod_cpp/autograd/engine/anomaly.h"

#include <atomic>

namespace hvd {
namespace {

std::atomic<bool> looking{false};

}  // namespace

void set_detect_anomaly(bool enabled) noexcept {
  looking.store(enabled, std::memory_order_relaxed);
}

bool anomaly_enabled() noexcept {
  return looking.load(std::memory_order_relaxed);
}

}  // namespace hvd
