#pragma once

#include <cstdint>
#include <span>

#include "core/base/clock.h"
#include "core/base/topology.h"
#include "core/observe/observer.h"
#include "core/observe/telemetry_channel.h"
#include "core/runtime/tensor_table.h"

namespace hvd {

// All observers of one Runtime, and the telemetry between those of its ranks. Used by one thread.
// With none of them no call costs more than a branch.
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

  // -- telemetry: messages for which is_observation() is true, sent past the tree.

  // Rank 0: NegotiationSettings::observed should be this from now on.
  bool wants_observed() const;
  // As TelemetryChannel has it, but what is malformed is dropped with a warning.
  void receive(Rank from, std::span<const std::byte> message, TimePoint now);
  TelemetryChannel& telemetry() { return telemetry_; }
  const TelemetryChannel& telemetry() const { return telemetry_; }

 private:
  void tell(BatchInfo& batch, TimePoint& when, void (Observer::*event)(const BatchInfo&));

  ObserverList all_;
  TelemetryChannel telemetry_;
  bool warned_ = false;
};

}  // namespace hvd
