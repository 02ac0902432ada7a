#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/negotiate/rank_protocol.h"
#include "core/negotiate/stall/unfinished.h"
#include "core/observe/observer.h"
#include "core/ports/collective.h"
#include "core/runtime/process_set.h"
#include "core/runtime/tensor_table.h"

namespace hvd {

// One fused batch on its way through the Collective of its process set. Where sizes differ by rank
// it takes two operations: the ranks exchange their row counts, then move the bytes into results
// allocated here.
class Batch {
 public:
  // `members` in the order of the plan: the submissions, with stand-ins where this rank has joined.
  // `position` is this rank's in the set. `collective` outlives the batch.
  Batch(RunBatch plan, std::vector<InFlightPtr> members, Collective& collective, ProcessSetPtr set,
        Rank position);

  std::uint64_t number() const { return plan_.number; }
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

  // One tensor of one member.
  struct Tensor {
    std::size_t member = 0;
    std::size_t index = 0;  // in the member
  };
  const Part& part(Tensor tensor) const {
    return members_[tensor.member]->submission.parts[tensor.index];
  }
  const Request& request(Tensor tensor) const {
    return members_[tensor.member]->submission.request;
  }

  void describe();
  void wait_for_inputs();
  std::unique_ptr<Operation> start_uniform();
  std::optional<SlicePlace> place_of(Tensor tensor) const;
  Outcome arena_outcome() const;
  void start_exchange();
  std::unique_ptr<Operation> start_exchanged();
  Reduction reduction() const;
  std::vector<Slice> slices() const;
  std::vector<ScatterSlice> scatter_slices() const;
  std::vector<std::int64_t> numel_of_ranks(Tensor tensor) const;
  std::int64_t announced(std::size_t tensor, Rank by, Rank about) const;
  std::vector<std::int64_t> rows_to(std::size_t tensor) const;
  std::vector<std::int64_t> rows_from(std::size_t tensor) const;
  void check_rows(std::size_t tensor, const std::vector<std::int64_t>& rows) const;
  void* allocate_result(std::size_t tensor, std::vector<std::int64_t> rows);

  RunBatch plan_;
  std::vector<InFlightPtr> members_;
  Collective* collective_;
  ProcessSetPtr set_;
  Rank position_;
  Rank root_ = 0;  // in the set
  std::vector<Tensor> tensors_;
  BatchInfo info_;
  Device device_;
  Stage stage_ = Stage::kNew;
  // What every rank announced about every tensor: see announced().
  std::size_t counts_ = 1;  // a tensor
  std::vector<std::int64_t> mine_;
  std::vector<std::int64_t> all_;
  std::vector<Outcome> outcomes_;
  ArenaMemory arena_;
  std::vector<Slice> slices_;
  std::vector<ScatterSlice> scatter_slices_;
  std::vector<GatherSlice> gather_slices_;
  std::vector<ExchangeSlice> exchange_slices_;
  std::unique_ptr<Operation> operation_;  // last: what it reads and writes outlives it
};

}  // namespace hvd
