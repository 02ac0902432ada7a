#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/announcer.h"
#include "core/negotiate/decision.h"
#include "core/negotiate/effects.h"
#include "core/negotiate/message_queue.h"
#include "core/negotiate/stall_watch.h"

namespace hvd::engine {

// Applies the log: its steps change what this rank knows, and become effects in their order.
class LogReplica {
 public:
  // The arguments outlive it.
  LogReplica(Rank rank, LogState& log, Announcer& announcer, StallWatch& stalls,
             Fifo<Effect>& effects)
      : rank_(rank), log_(log), announcer_(announcer), stalls_(stalls), effects_(effects) {}

  // The next decision, which fits what is known here.
  void apply(Decision& decision);
  // Why the log ended; empty while it goes on.
  const std::optional<Status>& stopped() const { return stopped_; }

  // As RankProtocol has them.
  void finished(std::uint64_t batch);
  void reuse(RunBatch&& done) { spare_members_.keep(std::move(done.members)); }

  // Batches that this rank was told to run and has not finished.
  std::size_t running() const { return running_; }
  std::uint64_t asks() const { return asks_; }  // steps so far

 private:
  void apply(const Decision& decision, const ChangeSettings& step);
  void apply(const Decision& decision, const DefineSlot& step);
  void apply(const Decision& decision, RunSlots& step);
  void apply(const Decision& decision, const RejectName& step);
  void apply(const Decision& decision, const EvictSlot& step);
  void apply(const Decision& decision, const JoinRank& step);
  void apply(const Decision& decision, const Ask& step);
  void apply(const Decision& decision, const Stop& step);
  void run_batch(std::span<const SlotNumber> slots, Bytes&& result);
  void change_sets(SlotNumber slot);
  // The submission that is pending under this name, if there is one.
  void fail(const std::string& name, const Status& why);
  void forget(SlotNumber slot);

  const Rank rank_;
  LogState& log_;
  Announcer& announcer_;
  StallWatch& stalls_;
  Fifo<Effect>& effects_;
  std::optional<Status> stopped_;
  std::uint64_t batches_ = 0;
  std::vector<std::uint64_t> credits_to_return_;  // batches whose credit this rank gives back
  std::size_t running_ = 0;
  std::uint64_t asks_ = 0;
  Spares<std::vector<BatchMember>> spare_members_;
};

}  // namespace hvd::engine
