#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/config.h"
#include "core/base/thread_annotations.h"
#include "core/runtime/control_plane.h"
#include "core/runtime/engine.h"
#include "core/runtime/executor.h"
#include "core/runtime/notifier.h"
#include "core/runtime/observers.h"
#include "core/runtime/tensor_table.h"
#include "core/runtime/transfers.h"
#include "core/runtime/unfinished.h"

namespace hvd {

// A world of one rank: no negotiation. Of host tensors submit() returns handles that are done;
// work of a device is enqueued, and its handles end when the device is through. It has a thread
// only from the first such work on, or the first transfer that had to wait for its other end.
class SoloEngine final : public Engine {
 public:
  SoloEngine(std::unique_ptr<ControlPlane> control,
             std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
             ObserverList observers);
  ~SoloEngine() override;
  SoloEngine(const SoloEngine&) = delete;
  SoloEngine& operator=(const SoloEngine&) = delete;

  void submit(std::span<Submission> submissions, std::span<Handle> handles) override;
  Handle submit(PointToPoint transfer) override;
  const SetRegistry& sets() const override { return sets_; }
  // There is nobody who could wait, or see other settings.
  void expect_wait_for_root(Duration) override {}
  void change_settings(std::function<void(NegotiationSettings&)>) override {}
  void on_look(std::function<std::string()>) override {}
  void on_stall(std::function<void(const std::string&)> report) override {
    notifier_.on_stall(std::move(report));
  }
  void shutdown() override;
  Status stopped() const override { return table_.closed(); }
  bool ended_in_error() const override { return false; }

 private:
  void run_added() HVD_REQUIRES(turn_);
  void run(const InFlightPtr& entry) HVD_REQUIRES(turn_);
  void run_batch(const InFlightPtr& entry) HVD_REQUIRES(turn_);
  void end(const InFlight& entry, const Status& status, std::int64_t number) HVD_REQUIRES(turn_);
  Duration poll_interval() const;
  void advance_batches() HVD_REQUIRES(turn_);
  void watch_batches(TimePoint now) HVD_REQUIRES(turn_);
  void advance_transfers() HVD_REQUIRES(turn_);
  void warn(const std::string& text);
  void rest(std::uint32_t seen) HVD_REQUIRES(turn_);
  Status drain() HVD_REQUIRES(turn_);
  void need_thread() HVD_REQUIRES(turn_);
  void look_after_rest();
  void stop(const Status& why) HVD_REQUIRES(turn_);

  std::unique_ptr<ControlPlane> control_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  TensorTable table_;
  SetRegistry sets_{1};
  // Submitting threads take turns with the ports, which know one thread at a time.
  Mutex turn_;
  std::uint64_t batches_ HVD_GUARDED_BY(turn_) = 0;
  ProcessSetId last_set_ HVD_GUARDED_BY(turn_) = kWorldSet;
  Observers observers_ HVD_GUARDED_BY(turn_);
  const Duration stall_limit_;
  const bool checks_nan_;
  BatchWatch watch_ HVD_GUARDED_BY(turn_);
  Transfers transfers_;  // but for add(): with turn_
  Notifier notifier_;    // last: these may own a thread
  Executor executor_ HVD_GUARDED_BY(turn_);
  std::thread waiter_ HVD_GUARDED_BY(turn_);
};

}  // namespace hvd
