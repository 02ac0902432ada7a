#pragma once

#include <cstdint>

namespace hvd {

// What ranks do together. The values are part of the wire format.
enum class CollectiveKind : std::uint8_t {
  kAllreduce = 0,
  kBroadcast = 1,
  kAllgather = 2,
  kAlltoall = 3,
  kReducescatter = 4,
  kReduce = 5,
  kGather = 6,
  kScatter = 7,
  kBarrier = 8,
  kAddSet = 9,      // `numbers` = the ranks of a new process set, ascending
  kRemoveSet = 10,  // `numbers` = the set
  kJoin = 11,       // this rank has no more data in this set; never compared, merged or cached
  kMakeArena = 12,  // communication memory of this many bytes on every rank: the only shape
};

inline constexpr int kCollectiveKindCount = 13;

// "allreduce", "broadcast", "add process set" and so on.
const char* name_of(CollectiveKind kind);

// Broadcast, reduce, gather and scatter.
constexpr bool needs_root(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kGather || kind == CollectiveKind::kScatter;
}
// Allreduce, reducescatter and reduce.
constexpr bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllreduce || kind == CollectiveKind::kReducescatter ||
         kind == CollectiveKind::kReduce;
}
// Ranks may bring different numbers of rows, and tell each other first how many.
constexpr bool sizes_differ(CollectiveKind kind) {
  return kind == CollectiveKind::kAllgather || kind == CollectiveKind::kAlltoall ||
         kind == CollectiveKind::kGather || kind == CollectiveKind::kScatter;
}
// Add and remove: the log itself carries them out; they are no batch.
constexpr bool changes_sets(CollectiveKind kind) {
  return kind == CollectiveKind::kAddSet || kind == CollectiveKind::kRemoveSet;
}

// Process sets are numbered in the order in which the log adds them; numbers are never reused.
using ProcessSetId = std::uint32_t;

inline constexpr ProcessSetId kWorldSet = 0;

}  // namespace hvd
