#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/config/config.h"
#include "core/negotiate/rank_protocol.h"
#include "core/negotiate/stall/unfinished.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "core/runtime/job_end.h"
#include "core/runtime/log_effects.h"
#include "core/runtime/loop_control.h"
#include "core/runtime/rank_parts.h"
#include "core/runtime/wake/idle.h"
#include "core/runtime/wake/loop_ownership.h"
#include "core/runtime/wake/submission_group.h"
#include "core/runtime/wake/waiting.h"
#include "core/tune/tuner.h"

namespace hvd::engine {

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

  RankParts& parts() { return parts_; }        // any thread: see there
  LoopControl& control() { return control_; }  // any thread
  JobEnd& end() { return end_; }               // any thread: see there
  // The table or the transfers have something new. Any thread.
  void submitted() noexcept {
    if (!SubmissionGroup::open() || !parts_.ownership->others_run()) control_.wake();
  }
  // Rank 0 is about to work for up to `wait` without submitting: until then no rank is blamed for
  // waiting for it. Without effect on other ranks. Any thread.
  void expect_wait_for_root(Duration wait);
  // Rank 0: what is decided from soon on is done under the changed settings. `change` gets those of
  // now, in the loop: it must not throw, wait or call the Runtime. Throws InvalidArgumentError on
  // other ranks. Any thread.
  void change_settings(std::function<void(NegotiationSettings&)> change);

 private:
  Rest run_until(const Completion& awaited, TimePoint deadline) noexcept override;
  template <typename Action>
  void stop_if_it_throws(Action action) noexcept;
  // What a turn of the loop did. After one that only announced something there is nothing to do
  // before a peer rings.
  enum class Turn { kIdle, kAnnounced, kMoved };
  Turn turn(TimePoint now) noexcept;
  Turn work(TimePoint now);
  void run_commands();
  bool announce();
  bool announce(const InFlightPtr& entry);
  bool receive();
  void receive_observation(const Message& message);
  bool advance_batches(TimePoint now);
  bool advance_transfers(TimePoint now);
  void watch_devices(TimePoint now);
  void send();
  void send(const OutgoingMessage& message);
  TimePoint sleep_until(TimePoint now) const;
  bool spin(std::uint32_t seen, TimePoint active) const;
  bool anything_left() const;
  void set_deferred_wake(bool idle) noexcept;

  const SpinLimits spin_limits_;
  const std::vector<int> cores_;  // of the coordinators of this host
  const bool checks_nan_;
  NegotiationSettings settings_;              // rank 0: of the log
  const std::shared_ptr<Autotune> autotune_;  // rank 0, if it was asked for
  RankParts parts_;
  LoopControl control_;
  JobEnd end_;
  LogEffects effects_;
  IdleLoop idle_;
  BatchWatch device_watch_;  // of this rank
  bool warned_of_observation_ = false;
};

}  // namespace hvd::engine
