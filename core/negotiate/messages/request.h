#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/allocators.h"
#include "core/base/bytes.h"
#include "core/base/collective_kind.h"
#include "core/base/dtype.h"
#include "core/base/reduction.h"
#include "core/base/tensor_view.h"
#include "core/base/topology.h"

namespace hvd::engine {

// How calls are named, and how messages for people show these names.

// What is reduced together is named after its first tensor: "c1.weight", "c1.weight and 7 more".
std::string group_name(const std::string& first, std::size_t count);

// What follows the names of calls of the second and later ones of a kind: " (optimizer 2)".
std::string unique_suffix(const std::string& kind, std::uint64_t number);

// A caller's name in quotes: 'x'; of a group: 'c1.weight' and 7 more.
std::string quoted_name(std::string_view name);

// The name of a request: 'x' (allreduce); 'c1.weight' and 7 more (allreduce of process set 2).
// A name that says no kind is quoted as it is. Calls without a name are numbered: unnamed call 7
// (allreduce).
std::string readable_name(std::string_view name);

// Arenas are numbered by the log; 0 is none.
using ArenaNumber = std::uint64_t;

// Where the tensors of a request lie in an arena. Ranks that differ in it do not disagree: what is
// not at one place everywhere is packed.
struct ArenaPlace {
  ArenaNumber arena = 0;               // 0 = packed
  std::vector<std::uint64_t> offsets;  // bytes, one per tensor; none when packed

  friend bool operator==(const ArenaPlace&, const ArenaPlace&) = default;
};

using Shapes = RecycledVector<Shape>;

// What must be equal on all ranks for a name to run: compared, merged and cached. What may differ
// by rank (first dimensions, splits) is exchanged in the data plane when the step runs.
struct Request {
  std::string name;  // unique in all sets: those of other sets than the world carry its number
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DType dtype = DType::kF32;
  DeviceKind device = DeviceKind::kCpu;
  ProcessSetId set = kWorldSet;
  ReduceOp op = ReduceOp::kSum;  // reductions only, like the scales
  Rank root = 0;                 // of the world; broadcast, reduce, gather and scatter only
  double prescale = 1.0;
  double postscale = 1.0;
  WireFormat wire = WireFormat::kNone;  // allreduce only
  // One per tensor; several are a group, which is announced, run and rejected as one. Allgather,
  // alltoall, gather and scatter: without the first dimension.
  Shapes shapes;
  // Of kAddSet and kRemoveSet; of others see number_of().
  std::vector<std::int32_t> numbers;
  bool automatic_name = false;  // gets a slot for one run only
  bool joins_average = false;   // kJoin: averages go on dividing by this rank too
  ArenaPlace place = {};        // allreduce only
  // Allreduce only: this rank has something to tell. Ranks may differ in it: all hear whether any
  // rank's was set (Outcome::flagged). A name that is flagged is announced in full.
  bool flagged = false;
  // What this rank found out about its own data: "gradient of 'w' is not finite (step 4)". Then the
  // name is rejected on all ranks. Empty = nothing.
  std::string not_finite = {};

  std::size_t bytes_of(std::size_t tensor) const {
    return static_cast<std::size_t>(numel_of(shapes[tensor])) * size_of(dtype);
  }

  friend bool operator==(const Request&, const Request&) = default;
};

// Equal except for their places and flags.
bool agree(const Request& a, const Request& b);

// Two that agree become one: packed, unless both are at one place; flagged, if one of them is.
void merge(Request& into, const Request& other);

// The arena in which a request with this place is reduced; 0 = it is packed, wherever it lies.
ArenaNumber arena_of(const Request& request);

// Bytes of an allreduce that rank 0 may reduce, from what comes with the announcements; 0 = it has
// to be reduced otherwise.
std::size_t eager_bytes(const Request& request);

// A call whose tensors are of several dtypes, or on several kinds of device, is a request for each.
// The first has the call's name and in `numbers` what the others are, so that ranks that disagree
// about these reject the call; the others' names are made of the first one's.
std::int32_t number_of(DType dtype, DeviceKind device);
std::string name_of_other(const std::string& first, std::int32_t number);
inline constexpr std::uint32_t kAllOthers = (1u << (2 * kDTypeCount)) - 1;  // a bit for each number

// Of a kRemoveSet.
inline ProcessSetId removed_set(const Request& request) {
  return static_cast<ProcessSetId>(request.numbers.front());
}

template <typename Io>
void serialize(Io& io, Fields<Io, Request>& request);

// Says in which field two requests of one name differ, e.g.
// "dtype: float32 on rank 0, float64 on rank 2". Empty when they are equal.
std::string describe_difference(const Request& a, Rank rank_a, const Request& b, Rank rank_b);

}  // namespace hvd::engine
