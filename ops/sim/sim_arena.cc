#include "ops/sim/sim_arena.h"

#include <string>
#include <utility>

#include "core/base/status.h"
#include "ops/host/host_buffer.h"

namespace hvd {
namespace {

class MakeArena final : public Operation {
 public:
  MakeArena(SimArenaPtr arena, int size, ArenaMemory& made, const SimArenas::Exchange& exchange)
      : arena_(std::move(arena)),
        made_(made),
        mine_(reinterpret_cast<std::int64_t>(arena_->mine.data)),
        all_(static_cast<std::size_t>(size)),
        exchange_(exchange({&mine_, 1}, all_)) {}

  bool advance() override {
    if (!exchange_->advance()) return false;
    if (!arena_->begin_of.empty()) return true;
    for (const std::int64_t begin : all_) {
      arena_->begin_of.push_back(reinterpret_cast<std::byte*>(begin));
    }
    made_ = {{arena_->mine.data, arena_->mine.bytes, arena_}, true};
    return true;
  }

 private:
  SimArenaPtr arena_;
  ArenaMemory& made_;
  std::int64_t mine_;
  std::vector<std::int64_t> all_;
  std::unique_ptr<Operation> exchange_;  // last: reads and writes what is above
};

}  // namespace

std::unique_ptr<Operation> SimArenas::make(std::uint64_t number, std::size_t bytes, int size,
                                           ArenaMemory& made, const Exchange& exchange) {
  auto arena = std::make_shared<SimArena>();
  arena->mine = host::allocate_buffer(bytes);
  std::erase_if(arenas_, [](const auto& entry) { return entry.second.expired(); });
  arenas_[number] = arena;
  return std::make_unique<MakeArena>(std::move(arena), size, made, exchange);
}

SimArenaPtr SimArenas::find(std::span<const Slice> slices, Rank rank) const {
  if (slices.empty() || !slices.front().place) return nullptr;
  const auto found = arenas_.find(slices.front().place->arena);
  SimArenaPtr arena = found == arenas_.end() ? nullptr : found->second.lock();
  for (const Slice& slice : slices) {
    if (arena != nullptr && slice.place && slice.place->arena == found->first &&
        slice.input.data == slice.output.data &&
        slice.input.data == arena->at(static_cast<std::size_t>(rank), slice)) {
      continue;
    }
    throw InvalidArgumentError("all_reduce: a slice of " + std::to_string(slice.input.numel) +
                               " elements does not lie where its place says");
  }
  return arena;
}

}  // namespace hvd
