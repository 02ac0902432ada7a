#include "ops/nccl/neighbours.h"

#include <algorithm>

namespace hvd::engine {

std::vector<Slice> join_neighbours(std::span<const Slice> slices) {
  std::vector<Slice> sorted(slices.begin(), slices.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Slice& a, const Slice& b) { return a.place->offset < b.place->offset; });
  std::vector<Slice> joined;
  for (const Slice& slice : sorted) {
    if (slice.input.numel == 0) continue;
    if (!joined.empty() &&
        joined.back().place->offset + joined.back().input.bytes() == slice.place->offset) {
      joined.back().input.numel += slice.input.numel;
      joined.back().output.numel += slice.output.numel;
    } else {
      joined.push_back(slice);
    }
  }
  return joined;
}

}  // namespace hvd::engine
