#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/ports/doorbell.h"
#include "core/ports/fence.h"
#include "core/runtime/callback_queue.h"
#include "core/runtime/handle.h"
#include "core/runtime/submission.h"
#include "core/runtime/wake/loop_ownership.h"
#include "core/runtime/wake/waiting.h"
#include "core/system/process.h"

namespace hvd::engine {

// Where the engine writes the end of a submission. A doorbell and no mutex: ending one that no
// thread waits for costs no system call. Thread-safe.
class Completion {
 public:
  // What a wait is for.
  enum class Until : std::uint32_t { kEnqueued = 2, kDone = 4 };

  explicit Completion(std::shared_ptr<LoopOwnership> ownership = nullptr)
      : ownership_(std::move(ownership)) {}
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  // The first call decides and returns true; later ones change nothing. The leases of `parts` are
  // dropped by the first thread that waits, or with the last handle: freeing user memory may need
  // locks that the coordinator must never wait for. (Those of ordered handles: see Submission.)
  bool finish(Status status, Outcome outcome = {}, Parts parts = {});
  // The same in two steps, for many at once: a thread that waits for all of them wakes when the
  // last has ended. wake() follows on each that end() ended.
  bool end(Status status, Outcome outcome = {}, Parts parts = {});
  void wake() noexcept;
  // Before the end: all of it is in a device's queue in front of `past`, so that what goes on there
  // need not wait for the device. The outcome is final. Nothing happens if it ended before; wake()
  // follows.
  void order(Fence past, Outcome outcome);

  bool done() const noexcept { return is(Until::kDone); }
  // `queue` calls `callback` once, after the end; any number of them. Throws AbortedError in a
  // forked child.
  void then(std::shared_ptr<CallbackQueue> queue, std::function<void()> callback);
  // Whether a Handle for it is left. These count them.
  bool held() const noexcept { return handles_.load(std::memory_order_acquire) != 0; }
  void hold() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }
  void let_go() noexcept { handles_.fetch_sub(1, std::memory_order_release); }
  // Whether it has ended, or got as far as `until`.
  bool is(Until until) const noexcept {
    const std::uint32_t state = state_.load(std::memory_order_acquire);
    return state == kDone || state == static_cast<std::uint32_t>(until);
  }
  // Blocks until is(), or until the deadline; whether it is. Throws AbortedError in a forked child,
  // and what ends the waits of this thread (InterruptibleWaits), also in wait().
  bool wait_until(TimePoint deadline, Until until = Until::kDone);
  // Blocks until finish(); throws its status, every time. Throws AbortedError in a forked child.
  const Outcome& wait();
  // The same, but until it is ordered: then `past` is what it was ordered before.
  const Outcome& wait_enqueued(Fence& past);

 private:
  // What then() was given, a list from the last one to the first.
  struct Continuation {
    std::shared_ptr<CallbackQueue> queue;
    std::function<void()> callback;
    Continuation* before = nullptr;
    AwaitedByCallback waits = {};
  };
  void call_continuations();
  bool block_until(TimePoint deadline, Until until);
  bool spin(Until until) const noexcept;

  static constexpr std::uint32_t kPending = 0, kOrdering = 1;
  static constexpr auto kEnqueued = static_cast<std::uint32_t>(Until::kEnqueued);
  static constexpr std::uint32_t kEnding = 3;
  static constexpr auto kDone = static_cast<std::uint32_t>(Until::kDone);

  const std::shared_ptr<LoopOwnership>
      ownership_;  // of the engine this was submitted to; may be null
  std::atomic<std::uint32_t> state_{kPending};
  DoorbellState finished_;
  std::atomic<Continuation*> continuations_{nullptr};
  std::atomic_flag parts_dropped_;
  std::atomic<std::uint32_t> handles_{0};
  const std::uint32_t generation_ = fork_generation();
  // Written while kOrdering, constant from then on.
  Fence past_;
  Outcome outcome_;  // or while kEnding, if it was never ordered
  // Written while kEnding, constant from kDone on.
  Status status_;
  Parts parts_;
};

}  // namespace hvd::engine
