#include "core/runtime/batch.h"

#include <limits>
#include <string>
#include <utility>

namespace hvd {
namespace {

using Kind = CollectiveKind;

bool rooted(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather ||
         kind == Kind::kScatter;
}

// The ranks first tell each other how much they bring.
bool sizes_differ(Kind kind) {
  return kind == Kind::kAllgather || kind == Kind::kAlltoall || kind == Kind::kGather ||
         kind == Kind::kScatter;
}

std::vector<std::size_t> bytes_of(const std::vector<std::int64_t>& rows, std::size_t row_bytes) {
  std::vector<std::size_t> bytes;
  bytes.reserve(rows.size());
  for (const std::int64_t count : rows)
    bytes.push_back(static_cast<std::size_t>(count) * row_bytes);
  return bytes;
}

}  // namespace

Batch::Batch(RunBatch plan, std::vector<InFlightPtr> members, Collective& collective,
             ProcessSetPtr set, Rank position)
    : plan_(std::move(plan)),
      members_(std::move(members)),
      collective_(&collective),
      set_(std::move(set)),
      position_(position) {
  if (rooted(plan_.key.kind)) root_ = set_->position_of(plan_.key.root);
  for (std::size_t member = 0; member < members_.size(); ++member) {
    const std::size_t count = members_[member]->submission.parts.size();
    for (std::size_t index = 0; index < count; ++index) tensors_.push_back({member, index});
  }
  describe();
}

void Batch::describe() {
  info_.number = plan_.number;
  info_.set = plan_.key.set;
  info_.kind = plan_.key.kind;
  info_.dtype = plan_.key.dtype;
  device_.kind = plan_.key.device;
  info_.members.reserve(members_.size());
  for (const InFlightPtr& member : members_) {
    BatchMemberInfo& info = info_.members.emplace_back();
    info.ticket = member->ticket;
    info.name = member->name();
    info.automatic_name = member->submission.request.automatic_name;
    info.submitted = member->announced;
    for (const Part& part : member->submission.parts) {
      info.bytes += part.input.view.bytes();
      if (member->ticket != 0) device_ = part.input.view.device;
    }
    info_.bytes += info.bytes;
  }
}

// Reads nothing that the end of the batch changes.
UnfinishedBatch Batch::unfinished() const {
  UnfinishedBatch report{.number = info_.number, .kind = info_.kind, .device = device_};
  report.name = info_.members.front().name;
  report.others = info_.members.size() - 1;
  for (const BatchMemberInfo& member : info_.members) {
    if (member.ticket == 0) continue;  // a stand-in: nobody announced it here
    if (!report.since || member.submitted < *report.since) report.since = member.submitted;
  }
  return report;
}

void Batch::start() {
  if (sizes_differ(plan_.key.kind)) {
    start_exchange();
    stage_ = Stage::kExchanging;
  } else {
    wait_for_inputs();
    operation_ = start_uniform();
    stage_ = Stage::kMoving;
  }
}

bool Batch::advance() {
  if (!operation_->advance()) return false;
  if (stage_ == Stage::kMoving) return true;
  operation_.reset();
  wait_for_inputs();
  outcomes_.resize(members_.size());
  operation_ = start_exchanged();
  stage_ = Stage::kMoving;
  return operation_->advance();
}

Outcome Batch::take_outcome(std::size_t member) {
  if (plan_.key.kind == Kind::kMakeArena) return arena_outcome();
  Outcome outcome = outcomes_.empty() ? Outcome{} : std::move(outcomes_[member]);
  outcome.flagged = plan_.members[member].request->flagged;
  return outcome;
}

void Batch::cancel() noexcept {
  if (operation_ == nullptr) return;
  const OperationStats stats = operation_->stats();
  info_.packed_bytes = stats.packed_bytes;
  info_.packing = stats.packing;
  info_.unpacking = stats.unpacking;
  operation_.reset();
}

void Batch::wait_for_inputs() {
  for (const InFlightPtr& member : members_) {
    const Fence& ready = member->submission.ready;
    if (!ready.reached()) collective_->after(ready);
  }
}

// What needs no exchange: the request says how much every rank brings.
std::unique_ptr<Operation> Batch::start_uniform() {
  switch (plan_.key.kind) {
    case Kind::kAllreduce:
      slices_ = slices();
      return collective_->all_reduce(slices_, reduction());
    case Kind::kBroadcast:
      slices_ = slices();
      return collective_->broadcast(slices_, root_);
    case Kind::kReducescatter:
    case Kind::kReduce:
      scatter_slices_ = scatter_slices();
      return collective_->reduce_scatter(scatter_slices_, reduction());
    case Kind::kBarrier:
      mine_ = {1};
      all_.resize(set_->ranks.size());
      return collective_->exchange(mine_, all_);
    case Kind::kMakeArena: {
      const Request& request = members_.front()->submission.request;
      return collective_->make_arena(plan_.number + 1, request.bytes_of(0), arena_);
    }
    default:
      throw InternalError(std::string("a batch of kind ") + name_of(plan_.key.kind));
  }
}

// Nobody can reduce in an arena that is not shared: it gets no number.
Outcome Batch::arena_outcome() const {
  const Buffer& mine = arena_.mine;
  const TensorView view = {mine.data, static_cast<std::int64_t>(mine.bytes), DType::kU8, {}};
  Outcome outcome;
  outcome.results.push_back({.gathered = {view, mine.owner}});
  outcome.number = arena_.shared ? static_cast<std::int64_t>(plan_.number) + 1 : 0;
  return outcome;
}

Reduction Batch::reduction() const {
  const FusionKey& key = plan_.key;
  if (key.op != ReduceOp::kAverage) return {key.op, key.prescale, key.postscale, key.wire};
  return {ReduceOp::kSum, key.prescale, key.postscale / plan_.divisor, key.wire};
}

std::vector<Slice> Batch::slices() const {
  std::vector<Slice> slices;
  slices.reserve(tensors_.size());
  for (const Tensor tensor : tensors_) {
    const Part& mine = part(tensor);
    slices.push_back({mine.input.view, mine.output.view,
                      static_cast<float*>(mine.residual.view.data), place_of(tensor)});
  }
  return slices;
}

std::optional<SlicePlace> Batch::place_of(Tensor tensor) const {
  if (plan_.key.arena == 0) return std::nullopt;
  return SlicePlace{plan_.key.arena, request(tensor).place.offsets[tensor.index]};
}

std::vector<ScatterSlice> Batch::scatter_slices() const {
  std::vector<ScatterSlice> slices;
  slices.reserve(tensors_.size());
  for (const Tensor tensor : tensors_) {
    const Part& mine = part(tensor);
    ScatterSlice& slice = slices.emplace_back();
    slice.input = mine.input.view;
    slice.output = mine.output.view;
    slice.numel_of = numel_of_ranks(tensor);
    slice.output.dtype = slice.input.dtype;
    slice.output.device = slice.input.device;
    slice.output.numel = slice.numel_of[static_cast<std::size_t>(position_)];
  }
  return slices;
}

// How the reduced tensor is divided: a reduce gives all of it to the root.
std::vector<std::int64_t> Batch::numel_of_ranks(Tensor tensor) const {
  const Shape& shape = request(tensor).shapes[tensor.index];
  const std::int64_t numel = numel_of(shape);
  if (plan_.key.kind == Kind::kReduce) {
    std::vector<std::int64_t> all_to_root(set_->ranks.size(), 0);
    all_to_root[static_cast<std::size_t>(root_)] = numel;
    return all_to_root;
  }
  auto shares = scattered_rows(shape.front(), set_->size());
  const std::int64_t row = shape.front() == 0 ? 0 : numel / shape.front();
  for (std::int64_t& share : shares) share *= row;
  return shares;
}

void Batch::start_exchange() {
  const bool by_rank = plan_.key.kind == Kind::kAlltoall || plan_.key.kind == Kind::kScatter;
  counts_ = by_rank ? set_->ranks.size() : 1;
  mine_.reserve(tensors_.size() * counts_);
  for (const Tensor tensor : tensors_) {
    const Part& mine = part(tensor);
    if (!by_rank) {
      mine_.push_back(mine.rows);
    } else if (mine.splits.empty()) {  // not the root
      mine_.insert(mine_.end(), counts_, 0);
    } else {
      mine_.insert(mine_.end(), mine.splits.begin(), mine.splits.end());
    }
  }
  all_.resize(mine_.size() * set_->ranks.size());
  operation_ = collective_->exchange(mine_, all_);
}

// Rows of the tensor that the rank `by` said it brings; alltoall, scatter: for the rank `about`.
std::int64_t Batch::announced(std::size_t tensor, Rank by, Rank about) const {
  const std::size_t count = counts_ == 1 ? 0 : static_cast<std::size_t>(about);
  return all_[static_cast<std::size_t>(by) * mine_.size() + tensor * counts_ + count];
}

std::unique_ptr<Operation> Batch::start_exchanged() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor tensor = tensors_[i];
    const std::size_t row_bytes = request(tensor).bytes_of(tensor.index);
    auto from = rows_from(i);
    check_rows(i, from);
    const auto bytes_from = bytes_of(from, row_bytes);
    const void* const input = part(tensor).input.view.data;
    void* const output = allocate_result(i, std::move(from));
    if (plan_.key.kind == Kind::kAllgather) {
      gather_slices_.push_back({input, output, bytes_from});
    } else {
      exchange_slices_.push_back({input, output, bytes_of(rows_to(i), row_bytes), bytes_from});
    }
  }
  if (plan_.key.kind == Kind::kAllgather) return collective_->all_gather(gather_slices_);
  return collective_->all_to_all(exchange_slices_);
}

std::vector<std::int64_t> Batch::rows_to(std::size_t tensor) const {
  std::vector<std::int64_t> rows(set_->ranks.size(), 0);
  const Part& mine = part(tensors_[tensor]);
  if (plan_.key.kind == Kind::kGather) {
    rows[static_cast<std::size_t>(root_)] = mine.rows;
  } else if (!mine.splits.empty()) {
    rows = mine.splits;
  }
  return rows;
}

std::vector<std::int64_t> Batch::rows_from(std::size_t tensor) const {
  std::vector<std::int64_t> rows(set_->ranks.size(), 0);
  if (plan_.key.kind == Kind::kGather && position_ != root_) return rows;
  for (Rank rank = 0; rank < set_->size(); ++rank) {
    if (plan_.key.kind == Kind::kScatter && rank != root_) continue;
    rows[static_cast<std::size_t>(rank)] = announced(tensor, rank, position_);
  }
  return rows;
}

// Checks what the other ranks said before anyone trusts a sum of it.
void Batch::check_rows(std::size_t tensor, const std::vector<std::int64_t>& rows) const {
  const Request& asked = request(tensors_[tensor]);
  const std::size_t row_bytes = asked.bytes_of(tensors_[tensor].index);
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (row_bytes > 1) most /= static_cast<std::int64_t>(row_bytes);
  std::int64_t total = 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    if (rows[rank] < 0 || rows[rank] > most - total) {
      throw InternalError(std::string(name_of(asked.kind)) + " '" + asked.name + "': rank " +
                          std::to_string(set_->ranks[rank]) + " announced " +
                          std::to_string(rows[rank]) + " rows of " + std::to_string(row_bytes) +
                          " bytes, more than memory can hold");
    }
    total += rows[rank];
  }
}

void* Batch::allocate_result(std::size_t tensor, std::vector<std::int64_t> rows) {
  const auto [member, index] = tensors_[tensor];
  auto& results = outcomes_[member].results;
  results.resize(members_[member]->submission.parts.size());
  if (plan_.key.kind == Kind::kGather && position_ != root_) return nullptr;
  const Request& asked = members_[member]->submission.request;
  std::int64_t total = 0;
  for (const std::int64_t count : rows) total += count;
  const std::int64_t numel = total * numel_of(asked.shapes[index]);
  Buffer buffer =
      collective_->allocate_result(static_cast<std::size_t>(numel) * size_of(asked.dtype));
  Result& result = results[index];
  const Device device = {asked.device, part(tensors_[tensor]).input.view.device.index};
  result.gathered = {{buffer.data, numel, asked.dtype, device}, std::move(buffer.owner)};
  result.rows_of = std::move(rows);
  return result.gathered.view.data;
}

}  // namespace hvd
