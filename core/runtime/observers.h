#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/base/clock.h"
#include "core/base/topology.h"
#include "core/negotiate/rank_protocol.h"
#include "core/observe/observer.h"
#include "core/observe/telemetry_channel.h"
#include "core/runtime/tensor_table.h"

namespace hvd {

// All observers of one Runtime, and the mail between those of its ranks. Used by one thread. With
// none of them no call costs more than a branch.
class Observers {
 public:
  Observers(ObserverList all, const Topology& topology, std::uint32_t epoch = 0);

  // -- events; see Observer.

  // `at`: when the submission was announced, the BatchMemberInfo::submitted of its batch.
  void submitted(const InFlight& entry, TimePoint at);
  // These set the batch's times to now.
  void negotiated(BatchInfo& batch);
  void started(BatchInfo& batch);
  // The batch has its stats by now.
  void finished(BatchInfo& batch);
  void failed(const InFlight& entry, const Status& why);
  // Once, when the log said stop or the coordinator gave up.
  void stopped(const Status& why, bool orderly);

  // -- mail: messages for which is_observation() is true, sent past the tree.

  // Rank 0: NegotiationSettings::observed should be this from now on.
  bool wants_observed() const;
  // Time passes, next_deadline() at the latest; `observed` is what the log says.
  void tick(TimePoint now, bool observed) { mail_.tick(now, observed); }
  // After stopped() and everything that finished or failed: the last words of this rank go out.
  void leave(TimePoint now) { mail_.leave(now, orderly_); }
  // The last words of the others are here or will not come any more. Before, rank 0's coordinator
  // does not end (kLastReportsLimit at most; at once if the end was not orderly).
  bool settled(TimePoint now) const { return mail_.settled(now); }
  // `now` was read after the message came out of the control plane: answers carry it to measure
  // clocks. What is malformed is dropped with a warning.
  void receive(Rank from, std::span<const std::byte> message, TimePoint now);
  // This rank is gone: its last words will not come.
  void peer_lost(Rank rank) { mail_.peer_lost(rank); }
  std::optional<OutgoingMessage> next_message() { return mail_.next_message(); }
  std::optional<TimePoint> next_deadline() const { return mail_.next_deadline(); }

 private:
  void tell(BatchInfo& batch, TimePoint& when, void (Observer::*event)(const BatchInfo&));

  ObserverList all_;
  TelemetryChannel mail_;
  bool orderly_ = false;
  bool warned_ = false;
};

}  // namespace hvd
