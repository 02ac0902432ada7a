#include "ops/shm/shm_operation.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "ops/host/host_memory.h"
#include "ops/host/streaming_copy.h"

namespace hvd::engine {

ShmOperation::ShmOperation(std::shared_ptr<ShmSet> set, std::vector<Fence> ready)
    : set_(std::move(set)),
      ready_(std::move(ready)),
      number_(set_->begin_operation()),
      first_(flags_before(number_, set_->segment().limits())) {}

ShmOperation::~ShmOperation() {
  if (!finished_) set_->abort();  // the other ranks wait for what this one will not do
}

void ShmOperation::set_plan(const Plan& plan) {
  plan_ = plan;
  if (std::max(plan.writes, plan.reads) < Step{1} << kStepBits) return;
  throw UnsupportedError("an operation of more than 2^" + std::to_string(kStepBits) +
                         " steps through shared memory");
}

std::byte* ShmOperation::chunk(std::size_t rank, Step step) const {
  return sides_[rank].chunks[step % 2];
}

bool ShmOperation::advance() {
  if (finished_) return true;
  set_->throw_if_aborted();
  if (!open()) return false;
  while (try_reduce() || try_write() || try_read()) {
  }
  if (!done()) return false;
  if (!told_end_) tell_read();
  finished_ = true;
  return true;
}

// True when the lane is this operation's.
bool ShmOperation::open() {
  if (!host::all_reached(ready_)) return false;
  if (sides_.empty()) sides_ = set_->lane_of(number_);
  if (sides_.empty()) return false;
  return open_ || (open_ = all_read(0, [](std::size_t) { return true; }));
}

bool ShmOperation::try_write() {
  if (written_ == plan_.writes) return false;
  if (wrote_early(sides_[rank()])) {  // and no rank has waited for it since then
    sides_[rank()].progress->written.store(first_ + ++written_, std::memory_order_seq_cst);
    return true;
  }
  const auto wanted = [this](std::size_t r) { return sends(r, written_ - 2); };
  if (written_ >= 2 && !all_read(written_ - 1, wanted)) return false;
  write(written_);
  tell(&LaneProgress::written, ++written_);
  return true;
}

bool ShmOperation::try_reduce() {
  if (!plan_.reduces || reduced_ == written_) return false;
  if (!reached(&LaneProgress::written, reduced_ + 1, [](std::size_t) { return true; })) {
    return false;
  }
  reduce(reduced_);
  tell(&LaneProgress::reduced, ++reduced_);
  return true;
}

bool ShmOperation::try_read() {
  if (read_ == plan_.reads || (plan_.reduces && read_ == reduced_)) return false;
  const auto wanted = [this](std::size_t r) { return receives(r, read_); };
  const Flag flag = plan_.reduces ? &LaneProgress::reduced : &LaneProgress::written;
  if (!reached(flag, read_ + 1, wanted)) return false;
  read(read_);
  ++read_;
  tell_read();
  return true;
}

// True when all ranks that it concerns have said so.
template <typename Concerns>
bool ShmOperation::reached(Flag flag, Step steps, const Concerns& concerns) const {
  const std::uint64_t value = first_ + steps;
  const bool may_be_early = flag == &LaneProgress::written;
  for (std::size_t r = 0; r < sides_.size(); ++r) {
    if (!concerns(r) || (sides_[r].progress->*flag).load(std::memory_order_seq_cst) >= value ||
        (may_be_early && wrote_early(sides_[r]))) {
      continue;
    }
    return false;
  }
  return true;
}

// The same of what has been read. Ranks rarely wait for that: they say so, and are rung only then.
template <typename Concerns>
bool ShmOperation::all_read(Step steps, const Concerns& concerns) {
  std::atomic<std::uint32_t>& waiting = sides_[rank()].progress->wait_for_reads;
  bool all = reached(&LaneProgress::read, steps, concerns);
  if (!all && !waits_for_reads_) {
    waits_for_reads_ = true;
    waiting.fetch_add(1, std::memory_order_seq_cst);
    all = reached(&LaneProgress::read, steps, concerns);
  }
  if (all && waits_for_reads_) {
    waits_for_reads_ = false;
    waiting.fetch_sub(1, std::memory_order_seq_cst);
  }
  return all;
}

// Where no rank goes on before all are there, the last one rings: the others would look in vain.
void ShmOperation::tell(Flag flag, Step steps) {
  (sides_[rank()].progress->*flag).store(first_ + steps, std::memory_order_seq_cst);
  if (needs_all() && !reached(flag, steps, [](std::size_t) { return true; })) return;
  set_->ring_others();
}

// Once this rank has done all, in a way that lets the lane's next operation begin.
void ShmOperation::tell_read() {
  told_end_ = done();
  const Step steps = told_end_ ? Step{1} << kStepBits : read_;
  sides_[rank()].progress->read.store(first_ + steps, std::memory_order_seq_cst);
  for (std::size_t r = 0; r < size(); ++r) {
    if (r != rank() && sides_[r].progress->wait_for_reads.load(std::memory_order_seq_cst) != 0) {
      set_->ring(r);
    }
  }
}

namespace {

// What a rank writes into its chunk.
struct Offer {
  std::uint32_t mapped = 0;  // it reaches all parts; written in the second step
  std::uint32_t made = 0;    // it has a part
  std::uint64_t offset = 0;  // in its arena file
};

Offer& offer_in(std::byte* chunk) {
  return *reinterpret_cast<Offer*>(chunk);
}

}  // namespace

ShmMakeArena::ShmMakeArena(std::shared_ptr<ShmSet> set, host::MappedArenaPtr arena,
                           std::size_t bytes, ArenaMemory& made)
    : ShmOperation(set, {}),
      members_(std::move(set)),
      arena_(std::move(arena)),
      bytes_(bytes),
      made_(made) {
  set_plan({.writes = 1, .reads = 1, .reduces = true});
  try {
    mine_ = members_->shared().arenas.make(bytes);
  } catch (const Error& error) {
    host::tell_of_no_arena(bytes_, error.what());
  }
}

void ShmMakeArena::write(Step step) {
  Offer offer;
  if (mine_ != nullptr) offer = {.made = 1, .offset = mine_->offset()};
  std::memcpy(chunk(rank(), step), &offer, sizeof offer);
}

std::shared_ptr<ArenaPart> ShmMakeArena::open(std::size_t rank) const {
  if (rank == this->rank()) return mine_;
  const Offer& offer = offer_in(chunk(rank, 0));
  if (offer.made == 0) return nullptr;
  return members_->shared().arenas.open(members_->world_rank(rank), offer.offset, bytes_);
}

void ShmMakeArena::reduce(Step step) {
  mapped_ = true;
  try {
    for (std::size_t r = 0; r < size(); ++r) {
      const auto memory = open(r);
      mapped_ = mapped_ && memory != nullptr;
      if (memory == nullptr) continue;
      arena_->begin_of.push_back(memory->data());
      arena_->memory.push_back(memory);
    }
  } catch (const Error& error) {
    mapped_ = false;
    host::tell_of_no_arena(bytes_, error.what());
  }
  offer_in(chunk(rank(), step)).mapped = mapped_ ? 1 : 0;
}

void ShmMakeArena::read(Step step) {
  bool all = mapped_;
  for (std::size_t r = 0; r < size(); ++r) all = all && offer_in(chunk(r, step)).mapped == 1;
  if (all) made_ = {{mine_->data(), bytes_, arena_}, true};
}

void ShmExchange::prepare() {
  stats_.packed_bytes = parcels_.bytes();
  Plan plan;
  for (std::size_t r = 0; r < size(); ++r) {
    plan.writes = std::max(plan.writes, steps_of(parcels_.to(r).bytes(), unit_));
    if (r != rank()) plan.reads = std::max(plan.reads, steps_of(parcels_.from(r).bytes(), unit_));
  }
  set_plan(plan);
}

// The others first: they wait for it.
void ShmExchange::write(Step step) {
  const host::Stopwatch packing(stats_.packing);
  const std::size_t first = step * unit_;
  for (std::size_t i = 1; i < size(); ++i) {
    const std::size_t to = (rank() + i) % size();
    parcels_.to(to).show_to(chunk(rank(), step) + place_of(to), first,
                            length(parcels_.to(to), to, step));
    if (parcels_.one_for_all()) break;
  }
  const host::ByteSequence& own = parcels_.to(rank());
  parcels_.from(rank()).copy_from(own, first, length_of(own.bytes(), unit_, step));
}

void ShmExchange::read(Step step) {
  const host::Stopwatch unpacking(stats_.unpacking);
  for (std::size_t r = 0; r < size(); ++r) {
    const host::ByteSequence& output = parcels_.from(r);
    if (const std::size_t bytes = length(output, r, step)) {
      output.copy_from(chunk(r, step) + place_of(rank()), step * unit_, bytes);
    }
  }
}

}  // namespace hvd::engine
