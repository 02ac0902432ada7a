#include "core/runtime/wake/blocked_time.h"

#include <atomic>

namespace hvd {
namespace {

std::atomic<int> threads{0};
std::atomic<Duration::rep> total{0};

}  // namespace

BlockedThread::BlockedThread() noexcept : begin_(Clock::now()) {
  threads.fetch_add(1, std::memory_order_seq_cst);
}

BlockedThread::~BlockedThread() {
  threads.fetch_sub(1, std::memory_order_seq_cst);
  total.fetch_add((Clock::now() - begin_).count(), std::memory_order_relaxed);
}

int blocked_threads() noexcept {
  return threads.load(std::memory_order_seq_cst);
}

Duration blocked_time() noexcept {
  return Duration(total.load(std::memory_order_relaxed));
}

}  // namespace hvd
