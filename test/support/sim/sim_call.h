#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/ports/collective.h"
#include "ops/host/host_memory.h"

namespace hvd {

// One rank's end of a SimWorld or of a subset of it.
struct SimMember {
  std::uint64_t group = 0;  // 0: the world
  Rank rank = 0;
  int size = 1;
  Rank world_rank = 0;
  std::shared_ptr<const SimMember> parent;  // null: the world's
  std::atomic<bool> aborted = false;        // and so are the subsets below

  bool is_aborted() const { return aborted || (parent != nullptr && parent->is_aborted()); }
  // Throws AbortedError.
  void check_running() const;
};

using SimMemberPtr = std::shared_ptr<SimMember>;

enum class SimKind { kReduce, kScatter, kBroadcast, kGather, kAllToAll, kExchange };

// What one rank brings to one collective.
struct SimCall {
  SimKind kind = SimKind::kReduce;
  SimMemberPtr member = {};
  Reduction reduction = {};
  Rank root = 0;
  std::vector<Slice> slices = {};
  host::MappedArenaPtr arena = nullptr;                  // in which the slices lie on all ranks
  std::vector<std::vector<std::int64_t>> numel_of = {};  // kScatter: of each slice
  std::vector<GatherSlice> gathers = {};
  std::vector<ExchangeSlice> exchanges = {};
  std::span<const std::int64_t> mine = {};
  std::span<std::int64_t> all = {};
  // In a lossy wire format: what the others get of each slice, decoded.
  std::vector<std::vector<std::byte>> decoded = {};
  bool withdrawn = false;  // its memory may be gone
};

using SimCallPtr = std::shared_ptr<SimCall>;
using SimCalls = std::vector<SimCallPtr>;                // by rank
using SimResults = std::vector<std::vector<std::byte>>;  // one a slice, equal for all ranks

// Encodes the slices in the call's wire format, if it has one; from then on `decoded` counts.
void encode(SimCall& call);

// Why the ranks' calls do not belong together, naming two ranks; empty when they do.
std::string disagreement(const SimCalls& calls);

SimResults results_of(const SimCalls& calls);

// Of slices in an arena: writes the results to where they lie on all ranks.
void write_in_place(const SimCalls& calls, const SimResults& results);

// Of all others: copies what is the call's to its outputs.
void write_results(const SimCalls& calls, const SimResults& results, SimCall& call);

// Of the call's contribution as it would travel.
std::size_t packed_bytes(const SimCall& call);

}  // namespace hvd
