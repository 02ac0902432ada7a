#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/allocators.h"
#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {

// A submission as an observer sees it; valid during the call.
struct SubmissionInfo {
  std::uint64_t ticket = 0;  // counts this rank's submissions
  std::string_view name;
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DType dtype = DType::kF32;
  ProcessSetId set = kWorldSet;
  std::size_t bytes = 0;  // of this rank's inputs
  bool automatic_name = false;
  TimePoint submitted{};  // when this rank announced it
};

// One name of a batch: a tensor or a group.
struct BatchMemberInfo {
  std::uint64_t ticket = 0;  // 0 = this rank has joined: it announced nothing
  std::string_view name;
  std::size_t bytes = 0;  // of this rank's inputs
  bool automatic_name = false;
  TimePoint submitted{};  // when this rank announced it
};

// One fused batch as an observer sees it; valid during the call.
struct BatchInfo {
  std::uint64_t number = 0;  // counts batches, equal on all ranks
  ProcessSetId set = kWorldSet;
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DType dtype = DType::kF32;
  std::size_t bytes = 0;  // of this rank's inputs, alignment gaps left out
  RecycledVector<BatchMemberInfo> members;
  // Of Operation::stats(); known once finished.
  std::size_t packed_bytes = 0;
  Duration packing = Duration::zero();
  Duration unpacking = Duration::zero();
  // Set by Observers as they come.
  TimePoint negotiated{};
  TimePoint started{};
  TimePoint finished{};
};

// What another rank's observer has collected.
struct Observation {
  Rank from = 0;
  // How the sender's clock relates to rank 0's; empty when it was not measured.
  std::optional<ClockEstimate> clock;
  std::span<const std::byte> bytes;
};

// Watches one Runtime: timeline, metrics, flight recorder. Calls come one at a time, on the
// coordinator thread (a world of one: on the submitting thread), must not throw and must not call
// the Runtime. The life of a name is submitted -> negotiated -> started -> finished; failed may end
// it at any point.
class Observer {
 public:
  virtual ~Observer() = default;

  // This rank announced it to the others.
  virtual void submitted(const SubmissionInfo& /*submission*/) {}
  // All ranks announced these names; the batch waits for its turn.
  virtual void negotiated(const BatchInfo& /*batch*/) {}
  // Its collective began on this rank.
  virtual void started(const BatchInfo& /*batch*/) {}
  // Its results are there on this rank.
  virtual void finished(const BatchInfo& /*batch*/) {}
  virtual void failed(std::uint64_t /*ticket*/, std::string_view /*name*/, const Status& /*why*/,
                      TimePoint /*at*/) {}
  // The job has ended on this rank; only failed() and collect() follow. Orderly: a rank left.
  virtual void stopped(const Status& /*why*/, bool /*orderly*/) {}

  // Rank 0: NegotiationSettings::observed should be true from now on.
  virtual bool wants_observed() const { return false; }
  // The log's setting changed (it begins as false).
  virtual void observed(bool /*on*/) {}
  // Appends what rank 0's observer of the same kind has to know and does not yet. Called now and
  // then, when observed() became false, and a last time when the rank leaves; never on rank 0.
  virtual void collect(Bytes& /*out*/) {}
  // Rank 0: what the observer of another rank collected, in order. Throws PeerLostError on
  // malformed bytes.
  virtual void receive(const Observation& /*observation*/) {}
};

// All ranks of a job have the same kinds of observers, in the same order; rank 0 may have others
// behind them, which hear of this rank alone.
using ObserverList = std::vector<std::shared_ptr<Observer>>;

}  // namespace hvd::engine
