#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/clock.h"
#include "core/negotiate/decision.h"
#include "core/negotiate/fusion_plan.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/process_sets.h"
#include "core/negotiate/response_cache.h"

namespace hvd::engine {

// A batch that the lowest rank of its process set has not finished yet.
struct RunningBatch {
  std::uint64_t number = 0;
  ProcessSetId set = kWorldSet;
  DeviceKind device = DeviceKind::kCpu;
  std::shared_ptr<const Request> first;  // one of its tensors, for reports
};

// Collective::reduce_here() of host memory.
using ReduceHere =
    std::function<bool(std::span<const Rank> ranks, std::span<const void* const> inputs,
                       DType dtype, std::int64_t numel, const Reduction& reduction, void* result)>;

// Rank 0: turns what all ranks announced into steps of the log.
class Sequencer {
 public:
  // `cache` and `sets` are rank 0's own: what it has applied. `reduce` reduces eager values;
  // without it the ranks run all batches.
  Sequencer(const NegotiationSettings& settings, const ResponseCache& cache,
            const ProcessSets& sets, ReduceHere reduce = nullptr);

  // Takes the slots and names that every expected rank announced, the joins and the credit.
  void take(Announcement& complete);
  // Credit of a batch that ended. Unknown numbers are ignored.
  void finished(std::uint64_t batch);
  // Holds for this and all later decisions.
  void change(const NegotiationSettings& settings);
  // From now on only what is complete runs.
  void leave(const Leaving& rank);
  void ask() { ask_ = true; }

  // Appends what can be decided at `now` to `decision`; the caller applies it before the next call.
  void decide(TimePoint now, Decision& decision);

  // Whether there is nothing to decide, however long it takes until something is announced.
  bool idle() const {
    return ready_.empty() && rejects_.empty() && joined_.empty() && settings_told_ && !ask_ &&
           (!leaving_ || stopped_);
  }
  // When the batching gap lets the next batch go; empty when nothing waits for it.
  std::optional<TimePoint> next_deadline() const { return gap_ends_; }
  const std::vector<RunningBatch>& running() const { return running_; }

 private:
  static constexpr SlotNumber kNoSlot = static_cast<SlotNumber>(-1);
  // Complete on all ranks and not yet run.
  struct Ready {
    SlotNumber slot = kNoSlot;  // the name's slot, if it has one
    // What the slot must be (re)defined as; null = as it is.
    std::shared_ptr<const Request> in_full;
    // The slot goes with this run, and all announce in full the next time.
    bool once = false;
    bool done = false;
    Bytes result = {};  // of the eager values of all ranks
  };

  void take_name(const Variants& variants);
  Bytes reduce_eager(SlotNumber slot, std::span<const EagerValues> all);
  bool reject_for_a_join(const Request& request);
  bool is_ready(const std::string& name) const;
  bool may_run(CollectiveKind kind, ProcessSetId set, DeviceKind device) const;
  void plan_runnable();
  void run_ready(TimePoint now, Decision& decision);
  void run_group(const FusedGroup& group, Decision& decision);
  SlotNumber define(Ready& ready, Decision& decision);

  NegotiationSettings settings_;
  const ResponseCache& cache_;
  const ProcessSets& sets_;
  const ReduceHere reduce_;
  SlotAllocator slots_;
  std::vector<Ready> ready_;
  std::vector<RejectName> rejects_;
  std::vector<Joining> joined_;
  std::vector<RunningBatch> running_;
  std::uint64_t batches_ = 0;
  std::optional<TimePoint> last_run_;
  std::optional<TimePoint> gap_ends_;  // set while the gap alone holds a batch back
  std::optional<Leaving> leaving_;
  bool ask_ = false;
  bool settings_told_ = false;
  bool stopped_ = false;
  FusionPlan plan_;               // of the members of ready_, by their places there
  std::vector<SlotNumber> once_;  // scratch, like
  std::vector<const void*> inputs_;
};

}  // namespace hvd::engine
