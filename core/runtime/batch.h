#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/negotiate/rank_protocol.h"
#include "core/runtime/collective.h"
#include "core/runtime/observer.h"
#include "core/runtime/tensor_table.h"

namespace hvd {

// One fused batch on its way through a Collective. Allgather takes two operations: the ranks
// exchange their rows, then move the bytes into outputs allocated here.
class Batch {
 public:
  // `members` in the order of the plan.
  Batch(RunBatch plan, std::vector<InFlightPtr> members, Collective& collective, Topology topology);

  std::uint64_t number() const { return plan_.number; }
  const std::vector<InFlightPtr>& members() const { return members_; }
  BatchInfo info() const;

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
  // What a member's handle gets. Requires: advance() was true and fence() was reached.
  Outcome take_outcome(std::size_t member);
  // Afterwards the ports no longer touch the members' memory.
  void cancel() noexcept { operation_.reset(); }

 private:
  enum class Stage { kNew, kExchanging, kMoving };

  void wait_for_inputs();
  std::vector<Slice> slices() const;
  void start_exchange();
  void start_gather();
  GatherSlice allocate_gathered(std::size_t member);

  RunBatch plan_;
  std::vector<InFlightPtr> members_;
  Collective* collective_;
  Topology topology_;
  Stage stage_ = Stage::kNew;
  // Allgather: rows_of_all_[r * members + i] is the first dimension of member i on rank r.
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> rows_of_all_;
  std::vector<Outcome> outcomes_;
  std::vector<Slice> slices_;
  std::vector<GatherSlice> gather_slices_;
  std::unique_ptr<Operation> operation_;  // last: what it reads and writes outlives it
};

}  // namespace hvd
