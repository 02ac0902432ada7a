#include "ops/shm/shm_make_arena.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "ops/shm/shared_memory.h"

namespace hvd {
namespace {

// What a rank writes into its chunk.
struct Offer {
  std::uint32_t mapped = 0;  // it reaches all parts; written in the second step
  std::uint32_t length = 0;  // of the path; 0 = it has no memory to share
  char path[1024] = {};
};

Offer& offer_in(std::byte* chunk) {
  return *reinterpret_cast<Offer*>(chunk);
}

}  // namespace

ShmMakeArena::ShmMakeArena(std::shared_ptr<ShmSet> set, host::MappedArenaPtr arena,
                           std::size_t bytes, ArenaMemory& made)
    : ShmOperation(std::move(set), {}), arena_(std::move(arena)), bytes_(bytes), made_(made) {
  set_plan({.writes = 1, .reads = 1, .reduces = true});
  try {
    mine_ = SharedMemory::create(bytes);
  } catch (const Error& error) {
    host::tell_of_no_arena(bytes_, error.what());
  }
}

void ShmMakeArena::write(Step step) {
  Offer offer;
  const std::string path = mine_ == nullptr ? "" : mine_->path();
  if (path.size() < sizeof offer.path) {
    offer.length = static_cast<std::uint32_t>(path.size());
    std::copy(path.begin(), path.end(), offer.path);
  }
  std::memcpy(chunk(rank(), step), &offer, sizeof offer);
}

std::shared_ptr<SharedMemory> ShmMakeArena::open(std::size_t rank) const {
  if (rank == this->rank()) return mine_;
  const Offer& offer = offer_in(chunk(rank, 0));
  const std::size_t length = std::min<std::size_t>(offer.length, sizeof offer.path);
  if (length == 0) return nullptr;
  return SharedMemory::open(std::string(offer.path, length), bytes_);
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

// By now nobody has to find anything by its name.
void ShmMakeArena::read(Step step) {
  bool all = mapped_;
  for (std::size_t r = 0; r < size(); ++r) all = all && offer_in(chunk(r, step)).mapped == 1;
  if (mine_ != nullptr) mine_->remove_name();
  if (all) made_ = {{mine_->data(), bytes_, arena_}, true};
}

}  // namespace hvd
