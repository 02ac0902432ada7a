#pragma once

#include <nccl.h>

#include <cstddef>

#include "core/ports/collective.h"
#include "ops/nccl/api.h"
#include "ops/nccl/reduction.h"

// NCCL's calls for one slice. Bytes travel as such, whatever they mean. All throw PeerLostError.
namespace hvd::engine {

// Where a call goes.
struct NcclTarget {
  const NcclApi& api;
  ncclComm_t communicator;
  cudaStream_t stream;
};

// `count`: elements of ours. `from` and `to` may be the same memory.
void all_reduce_elements(const NcclTarget& target, const NcclReduction& as, const void* from,
                         void* to, std::size_t count);
// One call if all ranks get the same number of elements, else a reduction for each.
void scatter_slice(const NcclTarget& target, const NcclReduction& as, const ScatterSlice& slice);
void broadcast_bytes(const NcclTarget& target, const void* from, void* to, std::size_t bytes,
                     Rank root);
// `bytes` of each rank.
void gather_bytes(const NcclTarget& target, const void* from, void* to, std::size_t bytes);
// One call if all ranks bring the same number of bytes, else a broadcast for each. `rank`: this
// one.
void gather_slice(const NcclTarget& target, const GatherSlice& slice, Rank rank);
// A send and a receive for each rank; those of nothing are left out.
void exchange_slice(const NcclTarget& target, const ExchangeSlice& slice);

}  // namespace hvd::engine
