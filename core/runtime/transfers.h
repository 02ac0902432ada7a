#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/ports/collective.h"
#include "core/runtime/completion.h"
#include "core/runtime/handle.h"
#include "core/runtime/retired_resources.h"
#include "core/runtime/submission.h"

namespace hvd::engine {

// The sends and receives in flight: each ends by itself, in no order of the log. add() may be
// called by any thread, the rest by the thread that uses the collectives.
class Transfers {
 public:
  // `world` are the collectives of all ranks, one per device; they outlive this. `limits` are those
  // of transfers without limits of their own; a wait is reported once.
  // `ownership`: of the coordinator that calls advance(); null = it does not sleep.
  Transfers(std::span<const std::unique_ptr<Collective>> world, const WaitLimits& limits,
            std::shared_ptr<LoopOwnership> ownership = nullptr);

  // Throws the status of close(), with the name of the transfer, after it.
  Handle add(PointToPoint transfer);

  // Does what can be done now; true if anything moved.
  bool advance(TimePoint now);
  // About a transfer that has waited for long.
  std::optional<std::string> next_report();
  bool busy() const { return !running_.empty(); }
  // Something was added that advance() has not seen yet.
  bool any_added() const { return any_added_; }
  // When advance() must be called at the latest without a ring.
  TimePoint next_deadline(TimePoint now) const;
  // What broke a port; ok if nothing did. The job is about to stop then.
  const Status& failure() const { return failure_; }
  // Ends all, for good; the ports no longer touch their tensors. What a device, or MPI, may still
  // use is kept. Returns what had not finished: "send to rank 1 with tag 0 (2 of float32, 8
  // bytes)".
  std::vector<std::string> close(const Status& why);
  // Fails the handles, for good, while the thread that uses the collectives is stuck in one. Any
  // thread.
  void abandon(const Status& why);

 private:
  struct Transfer {
    explicit Transfer(std::shared_ptr<LoopOwnership> ownership)
        : completion(std::move(ownership)) {}

    PointToPoint what;
    WaitLimits limits;
    Completion completion;
    Collective* collective = nullptr;
    std::unique_ptr<Operation> operation;
    std::optional<Fence> moved;  // asynchronous devices: enqueued up to here
    TimePoint since;
    bool reported = false;
  };
  using TransferPtr = std::shared_ptr<Transfer>;

  bool start_added(TimePoint now);
  void start(Transfer& transfer);
  bool fail(const TransferPtr& transfer, const Status& status);
  bool advance(const TransferPtr& transfer);
  bool check_wait(const TransferPtr& transfer, TimePoint now);
  bool end(const TransferPtr& transfer, const Status& status);
  void retire(Transfer& transfer);

  std::span<const std::unique_ptr<Collective>> world_;
  const WaitLimits limits_;
  const std::shared_ptr<LoopOwnership> ownership_;
  std::vector<TransferPtr> running_;
  std::deque<std::string> reports_;
  RetiredResources retired_;
  Status failure_;

  Mutex mutex_;
  Status closed_ HVD_GUARDED_BY(mutex_);
  std::set<TransferPtr> in_flight_ HVD_GUARDED_BY(mutex_);
  std::vector<TransferPtr> added_ HVD_GUARDED_BY(mutex_);
  std::atomic<bool> any_added_{false};  // written under the mutex, may be read without it
};

}  // namespace hvd::engine
