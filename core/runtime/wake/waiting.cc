#include "core/runtime/wake/waiting.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace hvd::engine {
namespace {

using std::chrono::microseconds;

constexpr Duration kWhileWaitedFor = microseconds(200);
constexpr Duration kOnACoreOfItsOwn = microseconds(20);
constexpr Duration kTurnOfAll = microseconds(1000);  // ranks that share a core, one after the other

std::atomic<Duration::rep> waiter_limit{0};

}  // namespace

SpinLimits spin_limits(double cores_per_rank) noexcept {
  SpinLimits limits;
  limits.coordinator_waited_for = kWhileWaitedFor;
  if (cores_per_rank < 1) {
    limits.yields = true;
    limits.returns = kTurnOfAll;
  }
  if (cores_per_rank >= 2) limits.coordinator = limits.waiter = kOnACoreOfItsOwn;
  return limits;
}

double cores_per_rank(int local_size) noexcept {
  const double online = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const double mine = known ? CPU_COUNT(&allowed) : online;
  // Ranks that are bound to cores of their own see only those.
  return std::min(mine, online / std::max(1, local_size));
}

void set_waiter_spin(Duration limit) noexcept {
  waiter_limit.store(limit.count(), std::memory_order_relaxed);
}

Duration waiter_spin() noexcept {
  return Duration(waiter_limit.load(std::memory_order_relaxed));
}

namespace {

std::atomic<int> threads{0};
std::atomic<int> callbacks{0};
std::atomic<Duration::rep> total{0};

}  // namespace

BlockedThread::BlockedThread() noexcept : begin_(Clock::now()) {
  threads.fetch_add(1, std::memory_order_seq_cst);
}

BlockedThread::~BlockedThread() {
  threads.fetch_sub(1, std::memory_order_seq_cst);
  total.fetch_add((Clock::now() - begin_).count(), std::memory_order_relaxed);
}

AwaitedByCallback::AwaitedByCallback() noexcept {
  callbacks.fetch_add(1, std::memory_order_relaxed);
}

AwaitedByCallback::~AwaitedByCallback() {
  callbacks.fetch_sub(1, std::memory_order_relaxed);
}

bool callback_waits() noexcept {
  return callbacks.load(std::memory_order_relaxed) > 0;
}

int blocked_threads() noexcept {
  return threads.load(std::memory_order_seq_cst);
}

Duration blocked_time() noexcept {
  return Duration(total.load(std::memory_order_relaxed));
}

}  // namespace hvd::engine
