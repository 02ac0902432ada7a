#include "core/runtime/blocked_time.h"

#include <atomic>

namespace hvd {
namespace {

std::atomic<Duration::rep> total{0};

}  // namespace

void add_blocked_time(Duration blocked) noexcept {
  total.fetch_add(blocked.count(), std::memory_order_relaxed);
}

Duration blocked_time() noexcept {
  return Duration(total.load(std::memory_order_relaxed));
}

}  // namespace hvd
