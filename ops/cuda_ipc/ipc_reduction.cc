#include <algorithm>

#include "ops/cuda/copy.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda_ipc/ipc_movement.h"
#include "ops/cuda_ipc/ipc_work.h"
#include "ops/cuda_ipc/packed_sequence.h"

namespace hvd::engine {
namespace {

// How elements of all ranks' chunks become one.
struct Reducer {
  IpcPlace place;
  DType dtype = DType::kF32;
  Reduction reduction;

  // `pieces` are from this rank's chunk.
  void run(const IpcChunk& chunk, std::span<const CopyPiece> pieces) const {
    ReduceInputs inputs;
    inputs.ranks = place.size;
    inputs.mine = place.rank;
    for (Rank rank = 0; rank < place.size; ++rank) inputs.base[rank] = chunk.of(rank);
    reduce_pieces(place.device, place.stream, dtype, reduction, inputs, pieces);
  }
};

// Small ones: every rank reduces all of a chunk straight into its outputs. Others: each reduces a
// share where it lies in its own chunk, and all copy the shares from there.
class AllReduce final : public IpcWork {
 public:
  AllReduce(const Reducer& reducer, const IpcLimits& limits, std::span<const Slice> slices)
      : reducer_(reducer), shown_(reducer.place, limits, false) {
    for (const Slice& slice : slices) {
      shown_.to(0).add(slice.input.data, slice.input.bytes());
      outputs_.add(slice.output.data, slice.output.bytes());
    }
    shares_ = reducer.place.size > 2 && outputs_.bytes() > limits.most_whole;
  }

  int stages() const override { return shares_ ? 3 : 2; }
  std::uint64_t steps() const override { return shown_.steps(); }
  void enqueue(int stage, std::uint64_t step, const IpcChunk& chunk) override {
    if (stage == 0) return shown_.pack(step, chunk);
    const std::size_t begin = step * shown_.part();
    const std::size_t bytes = std::min(shown_.part(), outputs_.bytes() - begin);
    if (!shares_) {
      std::vector<CopyPiece> pieces;
      pieces_out(outputs_, begin, bytes, chunk.mine(), pieces, size_of(reducer_.dtype));
      reducer_.run(chunk, pieces);
    } else if (stage == 1) {
      reduce_share(begin, bytes, chunk);
    } else {
      gather(begin, bytes, chunk);
    }
  }

 private:
  // Where the share of `rank` begins in `bytes` bytes of a chunk.
  std::size_t share(std::size_t bytes, Rank rank) const {
    constexpr std::size_t kUnit = PackedSequence::kAlignment;
    const auto size = static_cast<std::size_t>(reducer_.place.size);
    return bytes / kUnit * static_cast<std::size_t>(rank) / size * kUnit;
  }

  void reduce_share(std::size_t begin, std::size_t bytes, const IpcChunk& chunk) const {
    const std::size_t first = share(bytes, reducer_.place.rank);
    const std::size_t last = share(bytes, reducer_.place.rank + 1);
    std::vector<CopyPiece> pieces;
    outputs_.visit(
        begin + first, begin + last, [&](std::byte*, std::size_t offset, std::size_t count) {
          std::byte* const place = chunk.mine() + first + offset;
          pieces.push_back(
              {place, place, static_cast<std::int64_t>(count / size_of(reducer_.dtype))});
        });
    reducer_.run(chunk, pieces);
  }

  void gather(std::size_t begin, std::size_t bytes, const IpcChunk& chunk) const {
    const DType unit = outputs_.unit();
    std::vector<CopyPiece> pieces;
    for (Rank rank = 0; rank < reducer_.place.size; ++rank) {
      const std::size_t first = share(bytes, rank);
      pieces_out(outputs_, begin + first, share(bytes, rank + 1) - first, chunk.of(rank) + first,
                 pieces, size_of(unit));
    }
    copy_pieces(reducer_.place.device, reducer_.place.stream, {unit, unit, 1.0}, pieces);
  }

  Reducer reducer_;
  IpcShown shown_;
  PackedSequence outputs_;
  bool shares_ = false;
};

// Each rank reduces what all have shown for it.
class ReduceScatter final : public IpcWork {
 public:
  ReduceScatter(const Reducer& reducer, const IpcLimits& limits,
                std::span<const ScatterSlice> slices)
      : reducer_(reducer), shown_(reducer.place, limits, true) {
    for (const ScatterSlice& slice : slices) {
      const auto* data = static_cast<const std::byte*>(slice.input.data);
      for (Rank rank = 0; rank < reducer.place.size; ++rank) {
        const auto numel = static_cast<std::size_t>(slice.numel_of[static_cast<std::size_t>(rank)]);
        const std::size_t bytes = numel * size_of(reducer.dtype);
        shown_.to(rank).add(data, bytes);
        if (bytes != 0) data += bytes;
      }
      output_.add(slice.output.data, slice.output.bytes());
    }
  }

  int stages() const override { return 2; }
  std::uint64_t steps() const override { return shown_.steps(); }
  void enqueue(int stage, std::uint64_t step, const IpcChunk& chunk) override {
    if (stage == 0) return shown_.pack(step, chunk);
    std::vector<CopyPiece> pieces;
    pieces_out(output_, step * shown_.part(), shown_.part(),
               chunk.mine() + shown_.place_for(reducer_.place.rank), pieces,
               size_of(reducer_.dtype));
    reducer_.run(chunk, pieces);
  }

 private:
  Reducer reducer_;
  IpcShown shown_;
  PackedSequence output_;
};

template <typename Slices>
DType dtype_of(const Slices& slices) {
  return slices.empty() ? DType::kF32 : slices.front().input.dtype;
}

}  // namespace

std::unique_ptr<IpcWork> ipc_all_reduce(const IpcPlace& place, const IpcLimits& limits,
                                        std::span<const Slice> slices, const Reduction& reduction) {
  return std::make_unique<AllReduce>(Reducer{place, dtype_of(slices), reduction}, limits, slices);
}

std::unique_ptr<IpcWork> ipc_reduce_scatter(const IpcPlace& place, const IpcLimits& limits,
                                            std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) {
  return std::make_unique<ReduceScatter>(Reducer{place, dtype_of(slices), reduction}, limits,
                                         slices);
}

}  // namespace hvd::engine
