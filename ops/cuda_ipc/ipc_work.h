#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ports/collective.h"
#include "ops/cuda_ipc/ipc_links.h"

namespace hvd::engine {

// How much of a segment an operation uses at a time, and when all ranks reduce everything.
struct IpcLimits {
  // A segment has three of them. At least PackedSequence::kAlignment bytes per rank.
  std::size_t chunk_bytes = std::size_t{4} << 20;
  // An all-reduce of up to this many bytes is reduced by every rank for itself.
  std::size_t most_whole = std::size_t{256} << 10;
};

// A chunk of each rank's segment.
struct IpcChunk {
  const IpcLinks* links;
  std::size_t begin;  // in the segments

  std::byte* mine() const { return links->mine().data() + begin; }
  const std::byte* of(Rank rank) const { return links->data(rank) + begin; }
};

// Where a rank stands, and what its work is enqueued on.
struct IpcPlace {
  Rank rank = 0;
  int size = 1;
  int device = 0;
  cudaStream_t stream = nullptr;
};

// What an operation enqueues. It moves in steps of a chunk; a step passes the stages one after
// another. What a stage enqueues runs when all ranks' devices are past the stage before: step s is
// packed into this rank's chunk (stage 0), then read on all ranks.
class IpcWork {
 public:
  virtual ~IpcWork() = default;
  virtual int stages() const = 0;  // equal on all ranks
  // Of what this rank packs; others may have more steps.
  virtual std::uint64_t steps() const = 0;
  virtual void enqueue(int stage, std::uint64_t step, const IpcChunk& chunk) = 0;
};

// Borrow the slices' memory; the arguments are those of Collective and have been checked.
std::unique_ptr<IpcWork> ipc_all_reduce(const IpcPlace& place, const IpcLimits& limits,
                                        std::span<const Slice> slices, const Reduction& reduction);
std::unique_ptr<IpcWork> ipc_reduce_scatter(const IpcPlace& place, const IpcLimits& limits,
                                            std::span<const ScatterSlice> slices,
                                            const Reduction& reduction);
std::unique_ptr<IpcWork> ipc_broadcast(const IpcPlace& place, const IpcLimits& limits,
                                       std::span<const Slice> slices, Rank root);
std::unique_ptr<IpcWork> ipc_all_gather(const IpcPlace& place, const IpcLimits& limits,
                                        std::span<const GatherSlice> slices);
std::unique_ptr<IpcWork> ipc_all_to_all(const IpcPlace& place, const IpcLimits& limits,
                                        std::span<const ExchangeSlice> slices);

}  // namespace hvd::engine
