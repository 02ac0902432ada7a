#include "core/runtime/driver_seat.h"

#include <algorithm>

#include "core/runtime/blocked_time.h"

namespace hvd {
namespace {

// A thread that found the seat taken looks again this soon: who has it does not know its timers.
constexpr Duration kDisplaced = std::chrono::milliseconds(100);

thread_local int waits_at_once = 0;

}  // namespace

DriverSeat::WaitsAtOnce::WaitsAtOnce() noexcept {
  ++waits_at_once;
}

DriverSeat::WaitsAtOnce::~WaitsAtOnce() {
  --waits_at_once;
}

bool DriverSeat::submissions_ring() const noexcept {
  if (waits_at_once > 0 && others_drive_) return false;
  return !napping_.load(std::memory_order_seq_cst);
}

void DriverSeat::drive(const Completion& awaited, TimePoint deadline) noexcept {
  if (!others_drive_ || !take()) return ring();
  napping_.store(false, std::memory_order_seq_cst);
  bell_.ignore(Listener::kOwner);
  auto seen = coordinator_.drive(awaited, deadline);
  // Peers ring after they have written what this thread may have read already.
  if (seen && bell_.rings() != *seen) seen = coordinator_.drive(awaited, deadline);
  bell_.listen(Listener::kOwner);
  leave();
  const MutexLock lock(mutex_);
  if (!closed_ && bell_.rings() != seen) bell_.ring();
}

// Two threads find each other in one order or the other. Who fails to take the seat has read
// `seen` before it was left, so that a ring past leave() is not slept through; who leaves it looks
// at the bell after having told it to wake this thread.
void DriverSeat::rest(std::uint32_t seen, TimePoint deadline) noexcept {
  rests_until_ = deadline;
  bell_.listen(Listener::kOwner);
  leave();
  bell_.sleep(seen, deadline, Listener::kOwner);
  for (;;) {
    seen = bell_.rings();
    if (take()) break;
    bell_.sleep(seen, Clock::now() + kDisplaced, Listener::kOwner);
  }
  bell_.ignore(Listener::kOwner);
}

// Who submits during a nap and does not ring is not forgotten: the coordinator looks for
// submissions after it. A thread is blocked before it looks for the seat: one of the two sees the
// other.
void DriverSeat::nap(std::uint32_t seen, TimePoint deadline) noexcept {
  napping_.store(true, std::memory_order_seq_cst);
  if (blocked_threads() == 0) rest(seen, deadline);
  napping_.store(false, std::memory_order_seq_cst);
}

void DriverSeat::close() noexcept {
  const MutexLock lock(mutex_);
  closed_ = true;
}

void DriverSeat::ring() noexcept {
  const MutexLock lock(mutex_);
  if (!closed_) bell_.ring();
}

}  // namespace hvd
