#include "ops/shm/data_segment.h"

#include <algorithm>
#include <bit>
#include <string>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

// Of all rings for transfers; one that is full makes its sender wait.
constexpr std::size_t kAllRings = std::size_t{4} << 20;
constexpr std::size_t kMostPerRing = std::size_t{128} << 10;
constexpr std::size_t kLeastPerRing = 512;  // some notes

constexpr std::size_t kLeastShare = 64;  // bytes of a chunk for each rank

constexpr std::size_t kAlignment = 4096;

constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t begin_of_data(int ranks) {
  return align_up(Mailboxes::bytes_needed(ranks));
}

std::size_t data_ring_bytes(std::size_t ranks) {
  return std::clamp(std::bit_floor(kAllRings / (ranks * ranks)), kLeastPerRing, kMostPerRing);
}

}  // namespace

DataSegment::Layout::Layout(int count, const ShmLimits& limits) {
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

DataSegment::Needs DataSegment::needs(int ranks, const ShmLimits& limits) {
  const Layout layout(ranks, limits);
  return {begin_of_data(ranks) + layout.end, begin_of_data(ranks) + layout.places + layout.place};
}

DataSegment::DataSegment(std::shared_ptr<SharedMemory> memory, int ranks, int rank,
                         const ShmLimits& limits)
    : memory_(std::move(memory)),
      mailboxes_(memory_, ranks),
      rank_(rank),
      limits_(limits),
      layout_(ranks, limits),
      base_(memory_->data() + begin_of_data(ranks)) {
  if (limits.lanes == 0 || limits.chunk_bytes % kAlignment != 0 ||
      limits.chunk_bytes < kLeastShare * static_cast<std::size_t>(ranks)) {
    throw InvalidArgumentError("chunks of " + std::to_string(limits.chunk_bytes) + " bytes in " +
                               std::to_string(limits.lanes) +
                               " lanes: expected at least one lane, and a multiple of 4096 that "
                               "gives each rank 64 bytes");
  }
  if (memory_->bytes() >= needs(ranks, limits).bytes) return;
  throw InternalError("the data of " + std::to_string(ranks) + " ranks does not fit " +
                      std::to_string(memory_->bytes()) + " bytes");
}

std::byte* DataSegment::rank_area(Place place, int rank) const noexcept {
  return base_ + layout_.places + place * layout_.place +
         static_cast<std::size_t>(rank) * layout_.rank_area;
}

LaneProgress& DataSegment::progress(Place place, int rank, std::size_t lane) const noexcept {
  return reinterpret_cast<LaneProgress*>(rank_area(place, rank))[lane];
}

std::byte* DataSegment::chunk(Place place, int rank, std::size_t lane,
                              std::size_t which) const noexcept {
  return rank_area(place, rank) + layout_.progress + (2 * lane + which) * limits_.chunk_bytes;
}

// Of the set that has `place`, which is not the world's.
DataSegment::Entry& DataSegment::entry(Place place) const noexcept {
  return reinterpret_cast<Entry*>(base_)[place - 1];
}

// A free one of `limits_.sets` places from `first` on. It is taken before its memory is there,
// under a key that no rank looks for.
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
  for (const int member : members) {
    const auto at = static_cast<std::size_t>(rank_area(place, member) - memory_->data());
    memory_->reserve(at, layout_.rank_area);
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
      flags.early.store(0);
    }
  }
  mine.left.store(0);
  mine.key.store(0);
}

ByteRing DataSegment::ring_of(int from, int to, RingOf what) const noexcept {
  const auto count = static_cast<std::size_t>(ranks());
  const std::size_t pair = static_cast<std::size_t>(from) * count + static_cast<std::size_t>(to);
  const bool is_data = what == RingOf::kData;
  auto& state =
      reinterpret_cast<ByteRingState*>(base_ + layout_.states)[2 * pair + (is_data ? 1 : 0)];
  const std::size_t data_bytes = data_ring_bytes(count);
  std::byte* const rings = base_ + layout_.rings + pair * (kLeastPerRing + data_bytes);
  if (!is_data) return {state, rings, kLeastPerRing};
  return {state, rings + kLeastPerRing, data_bytes};
}

namespace {

// Messages are small, and one that does not fit waits in its sender: 4 MiB for all rings of a host
// is enough, and /dev/shm of a container is often only 64 MiB.
constexpr std::size_t kAllMailboxes = std::size_t{4} << 20;
constexpr std::size_t kLargestMailbox = std::size_t{64} << 10;
constexpr std::size_t kSmallestMailbox = std::size_t{1} << 10;

std::size_t ring_bytes_for(int ranks) {
  const auto pairs = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  return std::clamp(std::bit_floor(kAllMailboxes / pairs), kSmallestMailbox, kLargestMailbox);
}

}  // namespace

std::size_t Mailboxes::bytes_needed(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return count * sizeof(RankSlot) + count * count * (sizeof(ByteRingState) + ring_bytes_for(ranks));
}

Mailboxes::Mailboxes(std::shared_ptr<SharedMemory> memory, int ranks)
    : memory_(std::move(memory)), ranks_(ranks), ring_bytes_(ring_bytes_for(ranks)) {
  if (memory_->bytes() < bytes_needed(ranks)) {
    throw InternalError("mailboxes of " + std::to_string(ranks) + " ranks do not fit " +
                        std::to_string(memory_->bytes()) + " bytes");
  }
}

RankSlot& Mailboxes::slot(int local_rank) const noexcept {
  return reinterpret_cast<RankSlot*>(memory_->data())[local_rank];
}

ByteRing Mailboxes::ring(int from, int to) const noexcept {
  const auto count = static_cast<std::size_t>(ranks_);
  const auto pair = static_cast<std::size_t>(from) * count + static_cast<std::size_t>(to);
  std::byte* states = memory_->data() + count * sizeof(RankSlot);
  std::byte* data = states + count * count * sizeof(ByteRingState);
  return {reinterpret_cast<ByteRingState*>(states)[pair], data + pair * ring_bytes_, ring_bytes_};
}

}  // namespace hvd::engine
