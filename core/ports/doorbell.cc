#include "core/ports/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace hvd::engine {
namespace {

constexpr std::uint32_t kSleepers =
    static_cast<std::uint32_t>(Listener::kOwner) | static_cast<std::uint32_t>(Listener::kLoopOwner);

// The shared flavour of futex serves both: memory of one process and memory that several map.
long futex(std::atomic<std::uint32_t>& word, int op, std::uint32_t value, const timespec* timeout,
           std::uint32_t who) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), op, value, timeout, nullptr,
                 who);
}

}  // namespace

void Doorbell::ring() noexcept {
  state_->rings.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t who = state_->listeners.load(std::memory_order_seq_cst) & kSleepers;
  if (who != 0) futex(state_->rings, FUTEX_WAKE_BITSET, INT_MAX, nullptr, who);
}

void Doorbell::listen(Listener who) noexcept {
  state_->listeners.fetch_or(static_cast<std::uint32_t>(who), std::memory_order_seq_cst);
}

void Doorbell::ignore(Listener who) noexcept {
  state_->listeners.fetch_and(~static_cast<std::uint32_t>(who), std::memory_order_seq_cst);
}

void Doorbell::sleep(std::uint32_t seen, TimePoint deadline, Listener who) noexcept {
  using std::chrono::nanoseconds;
  const auto since_epoch = std::chrono::duration_cast<nanoseconds>(deadline.time_since_epoch());
  const auto count = since_epoch.count() > 0 ? since_epoch.count() : 0;
  const timespec timeout = {static_cast<time_t>(count / 1'000'000'000),
                            static_cast<long>(count % 1'000'000'000)};
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is what steady_clock reads.
  while (state_->rings.load(std::memory_order_seq_cst) == seen && Clock::now() < deadline) {
    futex(state_->rings, FUTEX_WAIT_BITSET, seen, &timeout, static_cast<std::uint32_t>(who));
  }
}

}  // namespace hvd::engine
