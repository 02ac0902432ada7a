#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/clock.h"
#include "core/base/config.h"
#include "core/base/status.h"
#include "core/negotiate/rank_protocol.h"
#include "core/runtime/collective.h"
#include "core/runtime/control_plane.h"
#include "core/runtime/doorbell.h"
#include "core/runtime/executor.h"
#include "core/runtime/observers.h"
#include "core/runtime/tensor_table.h"

namespace hvd {

// The loop of one rank: submissions and control messages into the protocol, its effects into the
// executor, its messages into the control plane. Sleeps on the control plane's doorbell, which all
// of these ring. run() is the coordinator thread; other threads use what is marked "any thread".
class Coordinator {
 public:
  Coordinator(std::unique_ptr<ControlPlane> control,
              std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
              std::vector<std::unique_ptr<Observer>> observers);

  // Returns when this rank has left the job, or the job has stopped.
  void run() noexcept;

  TensorTable& table() { return table_; }                // any thread
  void wake() noexcept { control_->doorbell().ring(); }  // any thread
  void leave() noexcept;                                 // any thread
  // Waits for the end of run(). False if the coordinator made no turn for `limit`: it is stuck
  // inside a port. Any thread.
  bool wait_for_end(Duration limit) noexcept;
  void abort_ports(const Status& why) noexcept;   // any thread
  bool ended() const noexcept { return ended_; }  // any thread

 private:
  // Running -> (the log said stop) -> draining what it started before -> leaving -> ended.
  enum class Phase { kRunning, kDraining, kLeaving, kEnded };

  bool turn(TimePoint now);
  void announce();
  static bool readable(const InFlight& entry);
  bool receive();
  bool apply_effects();
  void apply(RunBatch& effect);
  void apply(const FailTicket& effect);
  void apply(const Report& effect);
  void apply(const Stopped& effect);
  bool advance_batches();
  void send();
  void on_lost(Rank rank, const Status& why);
  void fail(const Status& why);
  bool check_phase(TimePoint now);
  void stop(const Status& why);
  TimePoint sleep_until(TimePoint now) const;
  bool spin(std::uint32_t seen);

  std::unique_ptr<ControlPlane> control_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  const Topology topology_;
  const Duration spin_limit_;
  TensorTable table_;
  Observers observers_;
  RankProtocol protocol_;
  Phase phase_ = Phase::kRunning;
  Status stop_reason_;
  TimePoint phase_deadline_ = TimePoint::max();
  bool left_ = false;
  Status failure_;                    // what fail() told the protocol
  std::vector<InFlightPtr> unready_;  // host tensors whose fence was not reached

  std::atomic<bool> leave_asked_{false};
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<bool> ended_{false};
  DoorbellState end_state_;
  Doorbell end_bell_{end_state_};
  Executor executor_;  // last: may own a thread
};

}  // namespace hvd
