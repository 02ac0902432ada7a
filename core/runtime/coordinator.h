#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/config/config.h"
#include "core/config/loss_mark.h"
#include "core/negotiate/rank_protocol.h"
#include "core/negotiate/stall/unfinished.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "core/ports/doorbell.h"
#include "core/runtime/executor.h"
#include "core/runtime/notifier.h"
#include "core/runtime/observers.h"
#include "core/runtime/process_set.h"
#include "core/runtime/tensor_table.h"
#include "core/runtime/transfers.h"
#include "core/runtime/wake/loop_ownership.h"
#include "core/runtime/wake/waiting.h"
#include "core/tune/autotune.h"

namespace hvd {

// The loop of one rank: submissions and control messages into the protocol, its effects into the
// executor, its messages into the control plane. Sleeps on the control plane's doorbell, which all
// of these ring. run() is the coordinator thread; a thread that waits for a handle may run the loop
// in its place (see LoopOwnership); other threads use what is marked "any thread".
class Coordinator final : public CallerRunLoop {
 public:
  Coordinator(std::unique_ptr<ControlPlane> control,
              std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
              ObserverList observers);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Returns when this rank has left the job, or the job has stopped.
  void run() noexcept;
  // In a world of one rank, until some thread calls run(): does what can be done without waiting.
  // False if something is left. One thread at a time.
  bool run_now() noexcept;

  TensorTable& table() { return table_; }            // any thread
  Transfers& transfers() { return transfers_; }      // any thread: add()
  const SetRegistry& sets() const { return sets_; }  // any thread
  Notifier& notifier() { return notifier_; }  // any thread: set_location_callback(), on_stall()
  void wake() noexcept { control_->doorbell().ring(); }  // any thread
  // The table or the transfers have something new. Any thread.
  void submitted() noexcept {
    if (ownership_->submissions_ring()) wake();
  }
  void leave() noexcept;  // any thread
  // As RankProtocol has them. Any thread.
  void expect_wait_for_root(Duration wait);
  void change_settings(std::function<void(NegotiationSettings&)> change);
  // Waits for the end of run(). False if the coordinator made no turn for `limit`, since it is
  // stuck inside a port. When the InterruptibleWaits of this thread end it is false at once if
  // `interruptible`, else after `limit` whatever the coordinator does. Any thread.
  bool wait_for_end(Duration limit, bool interruptible) noexcept;
  void abort_ports(const Status& why) noexcept;   // any thread
  bool ended() const noexcept { return ended_; }  // any thread
  // The job ended other than in order, however this rank learned of it. Any thread.
  bool ended_in_error() const noexcept { return ended_in_error_; }

 private:
  // Running -> (the log said stop) -> draining what it started before -> leaving -> ended.
  enum class Phase { kRunning, kDraining, kLeaving, kEnded };

  Rest drive(const Completion& awaited, TimePoint deadline) noexcept override;
  template <typename Action>
  void stop_if_it_throws(Action action) noexcept;
  bool turn(TimePoint now) noexcept;
  void end() noexcept;
  bool work(TimePoint now);
  void post(std::function<void()> command);
  void run_commands();
  bool announce();
  bool announce(const InFlightPtr& entry);
  void expect_more(std::size_t announced);
  static bool readable(const InFlight& entry);
  bool receive();
  bool apply_effects();
  void apply(RunBatch& effect);
  void apply(const FailTicket& effect);
  void apply(const SetAdded& effect);
  void apply(const SetRemoved& effect);
  void apply(const AllJoined& effect);
  void apply(const ProbeRanks& effect);
  void apply(const Report& effect);
  void apply(const Stopped& effect);
  bool advance_batches(TimePoint now);
  bool finish_joins();
  bool advance_transfers(TimePoint now);
  void finish(Ticket ticket, std::int64_t number);
  void fail(Ticket ticket, const Status& why);
  void warn(const std::string& text);
  void send();
  void send(const OutgoingMessage& message);
  void on_lost(Rank rank, const Status& why);
  void fail(const Status& why);
  void watch_devices(TimePoint now);
  bool check_phase(TimePoint now);
  bool check_drain(TimePoint now);
  bool asks_where() const { return where_deadline_ != TimePoint::max(); }
  void finish_departure(const std::string& where);
  void close_transfers(const Status& why);
  void stop(const Status& why, bool orderly);
  std::optional<Duration> poll_interval() const;
  TimePoint sleep_until(TimePoint now) const;
  void rest(std::uint32_t seen, TimePoint now);
  bool anything_left() const;
  void set_deferred_wake(bool patient) noexcept;
  bool spin(std::uint32_t seen, TimePoint active);
  bool may_spin(TimePoint active) const;

  std::unique_ptr<ControlPlane> control_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  const Topology topology_;
  const SpinLimits spin_limits_;
  const std::vector<int> cores_;  // of the coordinators of this host
  const bool checks_nan_;
  NegotiationSettings settings_;        // rank 0: of the log
  const Duration answer_limit_;         // from leave() or fail() to the others' answer
  std::shared_ptr<Autotune> autotune_;  // rank 0, if it was asked for
  const std::shared_ptr<LoopOwnership> ownership_;
  TensorTable table_;
  SetRegistry sets_;
  Transfers transfers_;
  Observers observers_;
  RankProtocol protocol_;
  Phase phase_ = Phase::kRunning;
  Status stop_reason_;
  TimePoint phase_deadline_ = TimePoint::max();
  std::optional<Drain> drain_;                       // while draining
  std::optional<Stopped> departure_;                 // another rank left; not yet in stop_reason_
  TimePoint where_deadline_ = TimePoint::max();      // until then the program may say where it is
  TimePoint transfers_deadline_ = TimePoint::max();  // while draining
  bool left_ = false;
  Status failure_;                    // what fail() told the protocol
  bool lost_a_peer_ = false;          // which is that a peer is gone
  const LossReporter loss_;           // tells hvdrun when another rank ended the job
  std::vector<InFlightPtr> unready_;  // host tensors whose fence was not reached
  std::vector<AllJoined> joined_;     // whose set still runs batches here
  TimePoint more_until_{};            // submissions are expected to come in a stream
  BatchWatch device_watch_;           // of this rank

  Mutex mutex_;
  std::vector<std::function<void()>> commands_ HVD_GUARDED_BY(mutex_);  // for the next turn
  std::atomic<bool> any_command_{false};
  std::atomic<bool> leave_asked_{false};
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> ended_in_error_{false};
  DoorbellState end_state_;
  Doorbell end_bell_{end_state_};
  Notifier notifier_;  // last: these may own a thread
  Executor executor_;
};

}  // namespace hvd
