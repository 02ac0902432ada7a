#include "core/runtime/batch.h"

#include <limits>
#include <string>
#include <utility>

namespace hvd {

Batch::Batch(RunBatch plan, std::vector<InFlightPtr> members, Collective& collective,
             Topology topology)
    : plan_(std::move(plan)),
      members_(std::move(members)),
      collective_(&collective),
      topology_(topology) {}

BatchInfo Batch::info() const {
  BatchInfo info{plan_.number, plan_.kind, plan_.dtype, 0, {}};
  info.names.reserve(members_.size());
  for (const InFlightPtr& member : members_) {
    info.names.push_back(member->name());
    info.bytes += member->submission.input.view.bytes();
  }
  return info;
}

void Batch::start() {
  if (plan_.kind == CollectiveKind::kAllgather) {
    start_exchange();
    return;
  }
  wait_for_inputs();
  slices_ = slices();
  if (plan_.kind == CollectiveKind::kBroadcast) {
    operation_ = collective_->broadcast(slices_, plan_.root);
  } else {
    const bool average = plan_.op == ReduceOp::kAverage;
    operation_ = collective_->all_reduce(slices_, average ? ReduceOp::kSum : plan_.op,
                                         average ? 1.0 / plan_.divisor : 1.0);
  }
  stage_ = Stage::kMoving;
}

bool Batch::advance() {
  if (!operation_->advance()) return false;
  if (stage_ == Stage::kMoving) return true;
  start_gather();
  return operation_->advance();
}

Outcome Batch::take_outcome(std::size_t member) {
  return outcomes_.empty() ? Outcome{} : std::move(outcomes_[member]);
}

void Batch::wait_for_inputs() {
  for (const InFlightPtr& member : members_) {
    const Fence& ready = member->submission.ready;
    if (!ready.reached()) collective_->after(ready);
  }
}

std::vector<Slice> Batch::slices() const {
  std::vector<Slice> slices;
  slices.reserve(members_.size());
  for (const InFlightPtr& member : members_) {
    slices.push_back({member->submission.input.view, member->submission.output.view});
  }
  return slices;
}

void Batch::start_exchange() {
  rows_.reserve(members_.size());
  for (const InFlightPtr& member : members_) rows_.push_back(member->submission.rows);
  rows_of_all_.resize(rows_.size() * static_cast<std::size_t>(topology_.size));
  operation_ = collective_->exchange(rows_, rows_of_all_);
  stage_ = Stage::kExchanging;
}

void Batch::start_gather() {
  operation_.reset();
  wait_for_inputs();
  gather_slices_.reserve(members_.size());
  outcomes_.resize(members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) gather_slices_.push_back(allocate_gathered(i));
  operation_ = collective_->all_gather(gather_slices_);
  stage_ = Stage::kMoving;
}

// Checks what the other ranks said before anyone trusts a sum of it.
GatherSlice Batch::allocate_gathered(std::size_t member) {
  const Submission& submission = members_[member]->submission;
  const auto size = static_cast<std::size_t>(topology_.size);
  Outcome& outcome = outcomes_[member];
  GatherSlice slice{submission.input.view.data, nullptr, {}};
  std::int64_t total_rows = 0;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const std::int64_t rows = rows_of_all_[rank * members_.size() + member];
    if (rows < 0 || rows > std::numeric_limits<std::int64_t>::max() - total_rows) {
      throw InternalError("allgather '" + members_[member]->name() + "': rank " +
                          std::to_string(rank) + " announced " + std::to_string(rows) + " rows");
    }
    total_rows += rows;
    outcome.rows_of.push_back(rows);
  }
  Shape shape = submission.request.shape;
  shape.insert(shape.begin(), total_rows);
  const std::int64_t numel = numel_of(shape);
  const std::size_t row_bytes = submission.request.bytes();
  for (const std::int64_t rows : outcome.rows_of) {
    slice.bytes_of.push_back(static_cast<std::size_t>(rows) * row_bytes);
  }
  const TensorView& input = submission.input.view;
  Buffer buffer =
      collective_->allocate(static_cast<std::size_t>(numel) * size_of(submission.request.dtype));
  outcome.gathered = {{buffer.data, numel, input.dtype, input.device}, std::move(buffer.owner)};
  slice.output = outcome.gathered.view.data;
  return slice;
}

}  // namespace hvd
