#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/negotiate/announcement.h"
#include "core/negotiate/decision.h"
#include "core/negotiate/fusion_plan.h"
#include "core/negotiate/response_cache.h"
#include "core/negotiate/slot_allocator.h"

namespace hvd {

// A batch that rank 0 has not finished yet.
struct RunningBatch {
  std::uint64_t number = 0;
  DeviceKind device = DeviceKind::kCpu;
  std::string first_name;  // one of its tensors, for reports
};

// Rank 0: turns what all ranks announced into steps of the log.
class Sequencer {
 public:
  // `cache` is rank 0's own: what it has applied.
  Sequencer(const NegotiationSettings& settings, int size, const ResponseCache& cache);

  // Takes the slots and names that every rank announced.
  void take(Announcement& complete);
  // Credit of a batch that ended here. Unknown numbers are ignored.
  void finished(std::uint64_t batch);
  // From now on only what is complete runs.
  void leave(Rank rank);
  void ask() { ask_ = true; }

  // Appends what can be decided at `now` to `decision`; the caller applies it before the next call.
  void decide(TimePoint now, Decision& decision);

  // When the batching gap lets the next batch go; empty when nothing waits for it.
  std::optional<TimePoint> next_deadline() const { return gap_ends_; }
  const std::vector<RunningBatch>& running() const { return running_; }

 private:
  static constexpr SlotNumber kNoSlot = static_cast<SlotNumber>(-1);
  // Complete on all ranks and not yet run.
  struct Ready {
    SlotNumber slot = kNoSlot;         // the name's slot, if it has one
    std::unique_ptr<Request> in_full;  // what the slot must be (re)defined as; null = as it is
  };

  void take_name(const Variants& variants);
  bool has_credit(DeviceKind device) const;
  bool has_credit() const;
  void run_ready(TimePoint now, Decision& decision);
  void run_group(const FusedGroup& group, Decision& decision);
  SlotNumber define(Ready& ready, Decision& decision);

  NegotiationSettings settings_;
  int size_;
  const ResponseCache& cache_;
  SlotAllocator slots_;
  std::vector<Ready> ready_;
  std::vector<RejectName> rejects_;
  std::vector<RunningBatch> running_;
  std::uint64_t batches_ = 0;
  std::optional<TimePoint> last_run_;
  std::optional<TimePoint> gap_ends_;  // set while the gap alone holds a batch back
  std::optional<Rank> leaving_;
  bool ask_ = false;
  bool settings_told_ = false;
  bool stopped_ = false;
  std::vector<FusionItem> items_;  // scratch
  FusionPlan plan_;                // scratch
  std::vector<SlotNumber> once_;   // scratch
};

}  // namespace hvd
