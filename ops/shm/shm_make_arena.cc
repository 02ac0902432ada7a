#include "ops/shm/shm_make_arena.h"

#include <cstring>
#include <utility>

#include "core/base/status.h"

namespace hvd {
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

}  // namespace hvd
