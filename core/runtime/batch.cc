#include "core/runtime/batch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/reduction.h"
#include "core/negotiate/fusion_plan.h"

namespace hvd::engine {
namespace {

using Kind = CollectiveKind;

std::vector<std::size_t> bytes_of(const std::vector<std::int64_t>& rows, std::size_t row_bytes) {
  std::vector<std::size_t> bytes;
  bytes.reserve(rows.size());
  for (const std::int64_t count : rows)
    bytes.push_back(static_cast<std::size_t>(count) * row_bytes);
  return bytes;
}

// Checks what the other ranks said before anyone trusts a sum of it.
void check_rows(const Request& request, std::size_t row_bytes, const SetMembers& set,
                const std::vector<std::int64_t>& rows) {
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (row_bytes > 1) most /= static_cast<std::int64_t>(row_bytes);
  std::int64_t total = 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    if (rows[rank] < 0 || rows[rank] > most - total) {
      throw InternalError(std::string(name_of(request.kind)) + " '" + request.name + "': rank " +
                          std::to_string(set.ranks[rank]) + " announced " +
                          std::to_string(rows[rank]) + " rows of " + std::to_string(row_bytes) +
                          " bytes, more than memory can hold");
    }
    total += rows[rank];
  }
}

// A slice for each tensor of an allreduce or a broadcast.
void append_slices(const Submission& submission, std::uint64_t arena, Slices& slices) {
  for (std::size_t i = 0; i < submission.parts.size(); ++i) {
    const Part& part = submission.parts[i];
    Slice& slice = slices.emplace_back();
    slice.input = part.input.view;
    slice.output = part.output.view;
    slice.residual = static_cast<float*>(part.residual.view.data);
    if (arena == 0) continue;
    slice.place = {arena, submission.request.place.offsets[i]};
  }
}

// See Slice::submission.
std::uint64_t key_of(const Submission& submission) {
  return content_hash(std::as_bytes(std::span(submission.request.name))) | 1;
}

// No rank can reduce in an arena that is not shared: it gets no number.
Outcome arena_outcome(const ArenaMemory& arena, std::uint64_t number) {
  const Buffer& mine = arena.mine;
  const TensorView view = {mine.data, static_cast<std::int64_t>(mine.bytes), DType::kU8, {}};
  Outcome outcome;
  outcome.results.push_back({.gathered = {view, mine.owner}});
  outcome.number = arena.shared ? static_cast<std::int64_t>(number) : 0;
  return outcome;
}

}  // namespace

Slices early_slices(const Submission& submission) {
  Slices slices;
  append_slices(submission, 0, slices);
  slices.front().submission = key_of(submission);
  return slices;
}

Batch::Batch(RunBatch plan, std::vector<InFlightPtr> members, Collective& collective,
             ProcessSetPtr set, Rank position)
    : plan_(std::move(plan)),
      members_(std::move(members)),
      collective_(&collective),
      set_(std::move(set)),
      position_(position) {
  if (needs_root(plan_.key.kind)) root_ = set_->position_of(plan_.key.root);
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
    if (member.ticket == 0) continue;  // an identity contribution: not announced here
    if (!report.since || member.submitted < *report.since) report.since = member.submitted;
  }
  return report;
}

void Batch::start() {
  if (!plan_.result.empty()) {
    take_result();
    stage_ = Stage::kMoving;
  } else if (sizes_differ(plan_.key.kind)) {
    start_exchange();
    stage_ = Stage::kExchanging;
  } else {
    wait_for_inputs();
    operation_ = start_uniform();
    stage_ = Stage::kMoving;
  }
}

bool Batch::advance() {
  if (operation_ == nullptr) return true;
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
  if (plan_.key.kind == Kind::kMakeArena) return arena_outcome(arena_, plan_.number + 1);
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
      make_slices();
      return collective_->all_reduce(slices_, reduction());
    case Kind::kBroadcast:
      make_slices();
      return collective_->broadcast(slices_, root_);
    case Kind::kReducescatter:
    case Kind::kReduce:
      make_scatter_slices();
      return collective_->reduce_scatter(scatter_slices_, reduction());
    case Kind::kBarrier:
      return nullptr;  // all ranks have come: it would not run otherwise
    case Kind::kMakeArena: {
      const Request& request = members_.front()->submission.request;
      return collective_->make_arena(plan_.number + 1, request.bytes_of(0), arena_);
    }
    default:
      throw InternalError(std::string("a batch of kind ") + name_of(plan_.key.kind));
  }
}

Reduction Batch::reduction() const {
  return reduction_of(plan_.key, plan_.divisor);
}

// Rank 0 has reduced what the ranks announced.
void Batch::take_result() {
  std::span<const std::byte> left = plan_.result;
  for (const Part& part : members_.front()->submission.parts) {
    const auto mine = left.first(part.output.view.bytes());
    std::copy(mine.begin(), mine.end(), static_cast<std::byte*>(part.output.view.data));
    left = left.subspan(mine.size());
  }
}

void Batch::make_slices() {
  slices_.reserve(members_.size());
  for (const InFlightPtr& member : members_) {
    append_slices(member->submission, plan_.key.arena, slices_);
  }
  if (members_.size() == 1 && plan_.key.kind == Kind::kAllreduce && plan_.key.arena == 0) {
    slices_.front().submission = key_of(members_.front()->submission);
  }
}

void Batch::make_scatter_slices() {
  scatter_slices_.reserve(members_.size());
  for (const InFlightPtr& member : members_) {
    const Submission& submission = member->submission;
    for (std::size_t i = 0; i < submission.parts.size(); ++i) {
      const Part& part = submission.parts[i];
      ScatterSlice& slice = scatter_slices_.emplace_back();
      slice.input = part.input.view;
      slice.output = part.output.view;
      slice.numel_of = numel_of_ranks(submission.request.shapes[i]);
      slice.output.dtype = slice.input.dtype;
      slice.output.device = slice.input.device;
      slice.output.numel = slice.numel_of[static_cast<std::size_t>(position_)];
    }
  }
}

// How the reduced tensor is divided: a reduce gives all of it to the root.
std::vector<std::int64_t> Batch::numel_of_ranks(const Shape& shape) const {
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
  mine_.reserve(members_.size() * counts_);
  for (const InFlightPtr& member : members_) {
    for (const Part& part : member->submission.parts) {
      if (!by_rank) {
        mine_.push_back(part.rows);
      } else if (part.splits.empty()) {  // not the root
        mine_.insert(mine_.end(), counts_, 0);
      } else {
        mine_.insert(mine_.end(), part.splits.begin(), part.splits.end());
      }
    }
  }
  all_.resize(mine_.size() * set_->ranks.size());
  operation_ = collective_->exchange(mine_, all_);
}

std::unique_ptr<Operation> Batch::start_exchanged() {
  std::size_t tensor = 0;
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const Submission& member = members_[m]->submission;
    outcomes_[m].results.resize(member.parts.size());
    for (std::size_t i = 0; i < member.parts.size(); ++i) {
      const std::size_t row_bytes = member.request.bytes_of(i);
      auto from = rows_from(tensor++);
      check_rows(member.request, row_bytes, *set_, from);
      const auto bytes_from = bytes_of(from, row_bytes);
      const void* const input = member.parts[i].input.view.data;
      void* const output = allocate_result(member, i, std::move(from), outcomes_[m].results[i]);
      if (plan_.key.kind == Kind::kAllgather) {
        gather_slices_.push_back({input, output, bytes_from});
      } else {
        const auto bytes_to = bytes_of(rows_to(member.parts[i]), row_bytes);
        exchange_slices_.push_back({input, output, bytes_to, bytes_from});
      }
    }
  }
  if (plan_.key.kind == Kind::kAllgather) return collective_->all_gather(gather_slices_);
  return collective_->all_to_all(exchange_slices_);
}

std::vector<std::int64_t> Batch::rows_to(const Part& part) const {
  if (plan_.key.kind != Kind::kGather && !part.splits.empty()) return part.splits;
  std::vector<std::int64_t> rows(set_->ranks.size(), 0);
  if (plan_.key.kind == Kind::kGather) rows[static_cast<std::size_t>(root_)] = part.rows;
  return rows;
}

// What each rank said it contributes to the batch's n-th tensor; alltoall, scatter: to this rank.
std::vector<std::int64_t> Batch::rows_from(std::size_t tensor) const {
  std::vector<std::int64_t> rows(set_->ranks.size(), 0);
  if (plan_.key.kind == Kind::kGather && position_ != root_) return rows;
  const std::size_t count = counts_ == 1 ? 0 : static_cast<std::size_t>(position_);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    if (plan_.key.kind == Kind::kScatter && rank != static_cast<std::size_t>(root_)) continue;
    rows[rank] = all_[rank * mine_.size() + tensor * counts_ + count];
  }
  return rows;
}

void* Batch::allocate_result(const Submission& member, std::size_t index,
                             std::vector<std::int64_t> rows, Result& result) {
  if (plan_.key.kind == Kind::kGather && position_ != root_) return nullptr;
  const Request& asked = member.request;
  std::int64_t total = 0;
  for (const std::int64_t count : rows) total += count;
  const std::int64_t numel = total * numel_of(asked.shapes[index]);
  Buffer buffer =
      collective_->allocate_result(static_cast<std::size_t>(numel) * size_of(asked.dtype));
  const Device device = {asked.device, member.parts[index].input.view.device.index};
  result.gathered = {{buffer.data, numel, asked.dtype, device}, std::move(buffer.owner)};
  result.rows_of = std::move(rows);
  return result.gathered.view.data;
}

namespace {

// This rank's share of a reducescatter, where it stands in the input.
TensorView own_share(const TensorView& input, const Shape& shape, int set_size, Rank position) {
  const auto rows = scattered_rows(shape.front(), set_size);
  std::int64_t before = 0;
  for (Rank rank = 0; rank < position; ++rank) before += rows[static_cast<std::size_t>(rank)];
  const std::int64_t row = shape.front() == 0 ? 0 : input.numel / shape.front();
  TensorView share = input;
  share.data = static_cast<std::byte*>(input.data) +
               static_cast<std::size_t>(before * row) * size_of(input.dtype);
  share.numel = rows[static_cast<std::size_t>(position)] * row;
  return share;
}

void write_neutral(const Request& request, const TensorView& view, Collective& collective) {
  if (request.device == DeviceKind::kCpu) {
    return fill_neutral(request.op, request.dtype, view.data, view.numel);
  }
  std::vector<std::byte> values(view.bytes());
  fill_neutral(request.op, request.dtype, values.data(), view.numel);
  collective.write(values.data(), view.data, values.size());
}

}  // namespace

Buffer ScratchMemory::take(Collective& collective, std::size_t bytes) {
  for (Buffer& buffer : buffers_) {
    if (buffer.owner.use_count() != 1) continue;
    if (buffer.bytes < bytes) buffer = collective.allocate_result(bytes);
    return buffer;
  }
  return buffers_.emplace_back(collective.allocate_result(bytes));
}

InFlightPtr identity_contribution(const Request& request, const SetMembers& set, Rank position,
                                  Collective& collective, ScratchMemory& scratch) {
  auto entry = std::make_shared<InFlight>();
  entry->submission.request = request;
  auto& parts = entry->submission.parts;
  parts.resize(request.shapes.size());
  const TensorView nothing = {nullptr, 0, request.dtype, {request.device, 0}};
  if (request.kind > Kind::kBroadcast && request.kind != Kind::kReducescatter &&
      request.kind != Kind::kReduce) {
    for (Part& part : parts) part.input.view = nothing;
    return entry;
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) bytes += align_up(request.bytes_of(i));
  const Buffer memory = scratch.take(collective, bytes);
  auto* next = static_cast<std::byte*>(memory.data);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& shape = request.shapes[i];
    TensorView view = nothing;
    view.data = next;
    view.numel = numel_of(shape);
    if (request.kind != Kind::kBroadcast) write_neutral(request, view, collective);
    parts[i].input = {view, memory.owner};
    parts[i].output.view =
        request.kind == Kind::kReducescatter ? own_share(view, shape, set.size(), position) : view;
    next += align_up(request.bytes_of(i));
  }
  return entry;
}

}  // namespace hvd::engine
