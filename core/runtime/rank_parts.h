#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/config/config.h"
#include "core/negotiate/rank_protocol.h"
#include "core/observe/observers.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "core/runtime/callback_queue.h"
#include "core/runtime/executor.h"
#include "core/runtime/notifier.h"
#include "core/runtime/process_set.h"
#include "core/runtime/tensor_table.h"
#include "core/runtime/transfers.h"
#include "core/runtime/wake/loop_ownership.h"

namespace hvd::engine {

// What the loop of one rank works on: its ports, what is in flight, and the protocol between them.
// Used by the thread that runs the loop, except what is marked "any thread".
struct RankParts {
  RankParts(std::unique_ptr<ControlPlane> control_plane,
            std::vector<std::unique_ptr<Collective>> all_collectives, const Config& config,
            const NegotiationSettings& settings, ObserverList all_observers, CallerRunLoop& loop,
            Duration returns);

  // How often to look for what does not ring; empty = all of it does.
  std::optional<Duration> poll_interval() const;
  // The same for a thread that sleeps, until it is rung.
  std::optional<Duration> prepare_sleep() const;
  bool in_flight() const { return executor.busy() || transfers.busy() || !table.empty(); }
  // Any thread.
  void abort_ports(const Status& why) noexcept;
  // Of what runs no batch: `number` is the outcome's.
  void finish(Ticket ticket, std::int64_t number);
  void fail(Ticket ticket, const Status& why);
  // To the log, and to the callback for reports of stalls.
  void warn(const std::string& text);

  std::unique_ptr<ControlPlane> control;  // doorbell(): any thread
  std::vector<std::unique_ptr<Collective>> collectives;
  const Topology topology;
  const std::shared_ptr<LoopOwnership> ownership;  // any thread
  TensorTable table;                               // any thread
  SetRegistry sets;                                // any thread: reading
  Transfers transfers;                             // any thread: add()
  Observers observers;
  RankProtocol protocol;
  std::vector<InFlightPtr> unready;  // host tensors whose fence was not reached
  std::vector<AllJoined> joined;     // whose set still runs batches here
  const std::shared_ptr<CallbackQueue> callbacks =
      std::make_shared<CallbackQueue>();  // any thread: see Handle::then
  Notifier notifier;                      // any thread: callbacks. Last: these may own a thread
  Executor executor;
};

}  // namespace hvd::engine
