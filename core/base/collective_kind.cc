#include "core/base/collective_kind.h"

#include <iterator>

namespace hvd {

const char* name_of(CollectiveKind kind) {
  constexpr const char* kNames[] = {
      "allreduce", "broadcast", "allgather", "alltoall",        "reducescatter",      "reduce",
      "gather",    "scatter",   "barrier",   "add process set", "remove process set", "join",
      "make arena"};
  static_assert(std::size(kNames) == kCollectiveKindCount);
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace hvd
