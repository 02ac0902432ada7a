#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/negotiate/rank_protocol.h"
#include "core/negotiate/stall/unfinished.h"
#include "core/observe/observer.h"
#include "core/ports/collective.h"
#include "core/runtime/process_set.h"
#include "core/runtime/tensor_table.h"

namespace hvd::engine {

// Communication memory that is reused once nothing holds it any more. For one thread.
class ScratchMemory {
 public:
  // Aligned to 64 bytes; the contents are what was there before.
  Buffer take(Collective& collective, std::size_t bytes);

 private:
  std::vector<Buffer> buffers_;
};

// What a joined rank brings to a request of the others: the neutral element, or no rows. What it
// gets is written to the same memory, and never read. `position` is the rank's in the set.
InFlightPtr identity_contribution(const Request& request, const SetMembers& set, Rank position,
                                  Collective& collective, ScratchMemory& scratch);

using Slices = RecycledVector<Slice>;

// The slices of an allreduce that may be shown early.
Slices early_slices(const Submission& submission);

// One fused batch on its way through the Collective of its process set. Where sizes differ by rank
// it takes two operations: the ranks exchange their row counts, then move the bytes into results
// allocated here.
class Batch final : public Recycled<Batch> {
 public:
  // `members` in the order of the plan: the submissions, with identity contributions where
  // this rank has joined.
  // `position` is this rank's in the set. `collective` outlives the batch.
  Batch(RunBatch plan, std::vector<InFlightPtr> members, Collective& collective, ProcessSetPtr set,
        Rank position);

  const FusionKey& key() const { return plan_.key; }
  const std::vector<InFlightPtr>& members() const { return members_; }
  // What observers see. Its stats are known once cancel() was called.
  BatchInfo& info() { return info_; }
  const BatchInfo& info() const { return info_; }
  // For reports; any thread.
  UnfinishedBatch unfinished() const;

  bool started() const { return stage_ != Stage::kNew; }
  // Starts the first operation. Throws Error.
  void start();
  // True when this rank's part is finished (asynchronous devices: enqueued). Throws Error.
  bool advance();
  // False while another operation of this batch is still to be started: all ranks start operations
  // in the same order, so later batches must not overtake it.
  bool all_started() const { return stage_ == Stage::kMoving; }
  // A point past everything the batch did.
  Fence fence() { return collective_->fence(); }
  // What a member's handle gets, once. Requires: advance() was true.
  Outcome take_outcome(std::size_t member);
  // The batch is over.
  RunBatch take_plan() { return std::move(plan_); }
  // Of a batch that is finished: the operation goes, and its stats are known.
  void cancel() noexcept;
  // Gives it up: see Operation::withdraw().
  bool withdraw() noexcept { return operation_ == nullptr || operation_->withdraw(); }

 private:
  enum class Stage { kNew, kExchanging, kMoving };

  void describe();
  void wait_for_inputs();
  std::unique_ptr<Operation> start_uniform();
  void make_slices();
  void make_scatter_slices();
  std::vector<std::int64_t> numel_of_ranks(const Shape& shape) const;
  Reduction reduction() const;
  void take_result();
  void start_exchange();
  std::unique_ptr<Operation> start_exchanged();
  std::vector<std::int64_t> rows_to(const Part& part) const;
  std::vector<std::int64_t> rows_from(std::size_t tensor) const;
  void* allocate_result(const Submission& member, std::size_t index, std::vector<std::int64_t> rows,
                        Result& result);

  RunBatch plan_;
  std::vector<InFlightPtr> members_;
  Collective* collective_;
  ProcessSetPtr set_;
  Rank position_;
  Rank root_ = 0;  // in the set
  BatchInfo info_;
  Device device_;
  Stage stage_ = Stage::kNew;
  // What this rank announced about every tensor, and what all did: rows_from().
  std::size_t counts_ = 1;  // per tensor
  std::vector<std::int64_t> mine_;
  std::vector<std::int64_t> all_;
  std::vector<Outcome> outcomes_;
  ArenaMemory arena_;
  Slices slices_;
  std::vector<ScatterSlice> scatter_slices_;
  std::vector<GatherSlice> gather_slices_;
  std::vector<ExchangeSlice> exchange_slices_;
  std::unique_ptr<Operation> operation_;  // last: what it reads and writes outlives it
};

}  // namespace hvd::engine
