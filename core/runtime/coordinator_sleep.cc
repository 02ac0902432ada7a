// When the coordinator sleeps, for how long, and what it does instead.

#include <algorithm>
#include <thread>

#include "core/runtime/coordinator.h"
#include "core/runtime/wake/waiting.h"
#include "core/system/interruptible_waits.h"

namespace hvd {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr int kPollsPerClockRead = 32;
// How long submissions of a stream may wait for each other while nobody waits for them.
constexpr Duration kNap = microseconds(200);
constexpr Duration kWorthPolling = microseconds(100);    // what is polled less often may sleep
constexpr Duration kUnreadyInterval = microseconds(50);  // fences do not ring
// At least a turn in this time, for what nobody rings for: submissions that their thread meant to
// wait for at once and did not, timers that a thread set which drove.
constexpr Duration kHeartbeat = seconds(1);

}  // namespace

// Who submits while earlier submissions are still in flight is likely to go on.
void Coordinator::expect_more(std::size_t announced) {
  if (table_.count() > announced) more_until_ = Clock::now() + kNap;
}

// Of what does not ring.
std::optional<Duration> Coordinator::poll_interval() const {
  std::optional<Duration> shortest = control_->poll_interval();
  for (const auto& collective : collectives_) {
    const auto interval = collective->poll_interval();
    if (interval) shortest = std::min(shortest.value_or(*interval), *interval);
  }
  return shortest;
}

TimePoint Coordinator::sleep_until(TimePoint now) const {
  TimePoint deadline = phase_deadline_;
  if (drain_) deadline = std::min({deadline, drain_->next_deadline(), where_deadline_});
  if (const auto timer = protocol_.next_deadline()) deadline = std::min(deadline, *timer);
  if (const auto timer = observers_.next_deadline()) deadline = std::min(deadline, *timer);
  if (executor_.busy())
    deadline = std::min(deadline, device_watch_.next_check().value_or(deadline));
  deadline = std::min(deadline, transfers_.next_deadline(now));
  if (transfers_.busy()) deadline = std::min(deadline, transfers_deadline_);
  if (const auto interval = poll_interval()) deadline = std::min(deadline, now + *interval);
  if (!unready_.empty()) deadline = std::min(deadline, now + kUnreadyInterval);
  if (leave_asked_) deadline = std::min(deadline, now + kHeartbeat);
  return deadline;
}

void Coordinator::rest(std::uint32_t seen, TimePoint now) {
  const TimePoint deadline = std::min(sleep_until(now), now + kHeartbeat);
  set_deferred_wake(true);
  if (now < more_until_) {
    ownership_->nap(std::min(deadline, more_until_));
  } else {
    ownership_->rest(seen, deadline);
  }
}

// Whether somebody has to go on where a thread stops that has what it waited for.
bool Coordinator::anything_left() const {
  return phase_ != Phase::kRunning || leave_asked_ || executor_.busy() || transfers_.busy() ||
         transfers_.any_added() || !table_.empty();
}

// Process sets without this rank may need its answers at any time.
void Coordinator::set_deferred_wake(bool patient) noexcept {
  Doorbell& bell = control_->doorbell();
  if (patient && !anything_left() && sets_.ids().size() == 1) {
    bell.listen(kDefersWake);
  } else {
    bell.ignore(kDefersWake);
  }
}

// False when it is time to sleep: `active` is when something moved last.
bool Coordinator::spin(std::uint32_t seen, TimePoint active) {
  const Doorbell& bell = control_->doorbell();
  const bool polled = poll_interval().value_or(Duration::max()) <= kWorthPolling;
  const int looks = spin_limits_.yields ? 1 : kPollsPerClockRead;
  while (may_spin(active)) {
    for (int look = 0; look < looks; ++look) {
      if (bell.rings() != seen) return true;
      spin_limits_.yields ? std::this_thread::yield() : relax();
    }
    if (polled) return true;
  }
  return false;
}

// A thread that waits leaves its core to this one, until it has what it waits for: it must wake
// then.
bool Coordinator::may_spin(TimePoint active) const {
  const bool in_flight = executor_.busy() || transfers_.busy() || !table_.empty();
  const bool waited_for = in_flight && blocked_threads() > 0;
  const Duration limit =
      waited_for ? spin_limits_.coordinator_waited_for : spin_limits_.coordinator;
  return limit > Duration::zero() && Clock::now() < active + limit;
}

bool Coordinator::wait_for_end(Duration limit, bool interruptible) noexcept {
  auto turns = turns_.load();
  for (TimePoint stuck = Clock::now() + limit;;) {
    const auto seen = end_bell_.rings();
    if (ended_) return true;
    const bool interrupted = InterruptibleWaits::ended();
    if (const auto now = turns_.load(); now != turns && !interrupted) {
      turns = now;
      stuck = Clock::now() + limit;
    }
    if (Clock::now() >= stuck || (interrupted && interruptible)) return false;
    end_bell_.wait_until(seen, InterruptibleWaits::look_before(stuck));
  }
}

}  // namespace hvd
