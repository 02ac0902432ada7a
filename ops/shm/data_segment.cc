#include "ops/shm/data_segment.h"

#include <algorithm>
#include <bit>
#include <string>

#include "core/base/status.h"

namespace hvd {
namespace {

// Of all rings for transfers; one that is full makes its sender wait.
constexpr std::size_t kAllRings = std::size_t{4} << 20;
constexpr std::size_t kMostPerRing = std::size_t{128} << 10;
constexpr std::size_t kLeastPerRing = 512;  // some notes

constexpr std::size_t kLeastShare = 64;  // bytes of a chunk for each rank

constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + DataSegment::kAlignment - 1) / DataSegment::kAlignment * DataSegment::kAlignment;
}

std::size_t data_ring_bytes(std::size_t ranks) {
  return std::clamp(std::bit_floor(kAllRings / (ranks * ranks)), kLeastPerRing, kMostPerRing);
}

}  // namespace

// Offsets and sizes in bytes: entries, the states of the rings, the rings, the places.
struct DataSegment::Layout {
  Layout(int count, const ShmLimits& limits) {
    const auto ranks = static_cast<std::size_t>(count);
    const std::size_t pairs = ranks * ranks;
    states = align_up(2 * limits.sets * sizeof(Entry));  // half of them for places without memory
    rings = states + align_up(2 * pairs * sizeof(ByteRingState));
    places = rings + align_up(pairs * (kLeastPerRing + data_ring_bytes(ranks)));
    progress = align_up(limits.lanes * sizeof(LaneProgress));
    rank_area = progress + limits.lanes * 2 * limits.chunk_bytes;
    place = ranks * rank_area;
    end = places + (1 + limits.sets) * place;
  }

  std::size_t states, rings, places;
  std::size_t progress;   // of a rank in a place
  std::size_t rank_area;  // of a rank in a place: progress and chunks
  std::size_t place;
  std::size_t end;
};

DataSegment::Needs DataSegment::needs(int ranks, const ShmLimits& limits) {
  const Layout layout(ranks, limits);
  return {layout.end, layout.places + layout.place};
}

DataSegment::DataSegment(std::shared_ptr<SharedMemory> memory, std::size_t offset, int ranks,
                         int rank, const ShmLimits& limits, std::vector<DoorbellState*> bells)
    : memory_(std::move(memory)),
      offset_(offset),
      ranks_(ranks),
      rank_(rank),
      limits_(limits),
      bells_(std::move(bells)) {
  if (limits.lanes == 0 || limits.chunk_bytes % kAlignment != 0 ||
      limits.chunk_bytes < kLeastShare * static_cast<std::size_t>(ranks)) {
    throw InvalidArgumentError("chunks of " + std::to_string(limits.chunk_bytes) + " bytes in " +
                               std::to_string(limits.lanes) +
                               " lanes: expected at least one lane, and a multiple of 4096 that "
                               "gives each rank 64 bytes");
  }
  const std::size_t wanted = offset + needs(ranks, limits).bytes;
  if (memory_->bytes() >= wanted && offset % kAlignment == 0) return;
  throw InternalError("the data of " + std::to_string(ranks) + " ranks does not fit " +
                      std::to_string(memory_->bytes()) + " bytes from " + std::to_string(offset));
}

std::byte* DataSegment::rank_area(Place place, int rank) const noexcept {
  const Layout layout(ranks_, limits_);
  return memory_->data() + offset_ + layout.places + place * layout.place +
         static_cast<std::size_t>(rank) * layout.rank_area;
}

LaneProgress& DataSegment::progress(Place place, int rank, std::size_t lane) const noexcept {
  return reinterpret_cast<LaneProgress*>(rank_area(place, rank))[lane];
}

std::byte* DataSegment::chunk(Place place, int rank, std::size_t lane,
                              std::size_t which) const noexcept {
  const Layout layout(ranks_, limits_);
  return rank_area(place, rank) + layout.progress + (2 * lane + which) * limits_.chunk_bytes;
}

// Of the set that has `place`, which is not the world's.
DataSegment::Entry& DataSegment::entry(Place place) const noexcept {
  return reinterpret_cast<Entry*>(memory_->data() + offset_)[place - 1];
}

// A free one of `limits_.sets` places from `first` on. It is taken before its memory is there,
// under a key that nobody looks for.
std::optional<DataSegment::Place> DataSegment::take_entry(Place first) noexcept {
  constexpr std::uint64_t kTaken = ~std::uint64_t{0};
  for (Place place = first; place < first + limits_.sets; ++place) {
    std::uint64_t free = 0;
    if (entry(place).key.compare_exchange_strong(free, kTaken)) return place;
  }
  return std::nullopt;
}

DataSegment::Place DataSegment::give_place(std::uint64_t key, const std::vector<int>& members) {
  const auto place = take_entry(1);
  if (!place) {
    refuse_place(key, members);
    throw UnsupportedError("more than " + std::to_string(limits_.sets) +
                           " process sets at a time on this host: remove some that are not "
                           "needed, or set HOROVOD_CPU_OPERATIONS=mpi");
  }
  try {
    reserve_place(*place, members);
  } catch (...) {
    entry(*place).key.store(0);
    refuse_place(key, members);
    throw;
  }
  entry(*place).key.store(key);
  for (const int member : members) ring(member);
  return *place;
}

void DataSegment::reserve_place(Place place, const std::vector<int>& members) {
  const Layout layout(ranks_, limits_);
  for (const int member : members) {
    const auto at = static_cast<std::size_t>(rank_area(place, member) - memory_->data());
    memory_->reserve(at, layout.rank_area);
  }
}

// Where even these are all taken, members wait for what does not come until the segment goes.
void DataSegment::refuse_place(std::uint64_t key, const std::vector<int>& members) noexcept {
  const auto place = take_entry(1 + limits_.sets);
  if (!place) return;
  entry(*place).key.store(key);
  for (const int member : members) ring(member);
}

std::optional<DataSegment::Place> DataSegment::find_place(std::uint64_t key) const noexcept {
  for (Place place = 1; place <= 2 * limits_.sets; ++place) {
    if (entry(place).key.load() == key) return place;
  }
  return std::nullopt;
}

void DataSegment::leave_place(Place place, const std::vector<int>& members) noexcept {
  Entry& mine = entry(place);
  if (mine.left.fetch_add(1) + 1 < members.size()) return;
  for (const int member : members) {
    if (!has_memory(place)) break;
    for (std::size_t lane = 0; lane < limits_.lanes; ++lane) {
      LaneProgress& flags = progress(place, member, lane);
      flags.written.store(0);
      flags.reduced.store(0);
      flags.read.store(0);
    }
  }
  mine.left.store(0);
  mine.key.store(0);
}

// `which`: 0 for notes, 1 for data.
ByteRing DataSegment::ring_of(int from, int to, std::size_t which) const noexcept {
  const Layout layout(ranks_, limits_);
  const auto ranks = static_cast<std::size_t>(ranks_);
  const std::size_t pair = static_cast<std::size_t>(from) * ranks + static_cast<std::size_t>(to);
  std::byte* const base = memory_->data() + offset_;
  auto& state = reinterpret_cast<ByteRingState*>(base + layout.states)[2 * pair + which];
  const std::size_t data_bytes = data_ring_bytes(ranks);
  std::byte* const rings = base + layout.rings + pair * (kLeastPerRing + data_bytes);
  if (which == 0) return {state, rings, kLeastPerRing};
  return {state, rings + kLeastPerRing, data_bytes};
}

ByteRing DataSegment::notes(int from, int to) const noexcept {
  return ring_of(from, to, 0);
}

ByteRing DataSegment::data(int from, int to) const noexcept {
  return ring_of(from, to, 1);
}

}  // namespace hvd
