#include "ops/host/host_memory.h"

#include <algorithm>
#include <new>

#include "core/base/status.h"
#include "core/config/log.h"

namespace hvd::engine::host {

Buffer allocate_buffer(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};  // a cache line
  void* const data = ::operator new(bytes, kAlignment);
  const auto release = [](const void* memory) {
    ::operator delete(const_cast<void*>(memory), kAlignment);
  };
  return {data, bytes, std::shared_ptr<const void>(data, release)};
}

bool all_reached(std::vector<Fence>& fences) {
  std::erase_if(fences, [](const Fence& fence) { return fence.reached(); });
  return fences.empty();
}

void tell_of_no_arena(std::size_t bytes, const std::string& why) {
  log(LogLevel::kWarning, "gradients are packed, because an arena of " + std::to_string(bytes) +
                              " bytes failed: " + why);
}

void MappedArenas::add(std::uint64_t number, const MappedArenaPtr& arena) {
  std::erase_if(arenas_, [](const auto& entry) { return entry.second.expired(); });
  arenas_[number] = arena;
}

MappedArenaPtr MappedArenas::find(std::span<const Slice> slices, Rank rank) const {
  const bool placed =
      std::any_of(slices.begin(), slices.end(), [](const Slice& s) { return s.place.has_value(); });
  if (!placed) return nullptr;
  const auto found =
      slices.front().place ? arenas_.find(slices.front().place->arena) : arenas_.end();
  MappedArenaPtr arena = found == arenas_.end() ? nullptr : found->second.lock();
  for (const Slice& slice : slices) {
    if (arena != nullptr && slice.place && slice.place->arena == found->first &&
        slice.input.data == slice.output.data &&
        slice.input.data == arena->at(static_cast<std::size_t>(rank), slice)) {
      continue;
    }
    throw InvalidArgumentError("all_reduce: a slice of ", slice.input.numel,
                               " elements is not where its place says");
  }
  return arena;
}

}  // namespace hvd::engine::host
