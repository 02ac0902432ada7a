#include "ops/cuda_ipc/ipc_movement.h"

#include <algorithm>
#include <utility>

namespace hvd::engine {
namespace {

// All ranks copy what those that show something to them have shown.
class Movement final : public IpcWork {
 public:
  Movement(const IpcPlace& place, const IpcLimits& limits, bool for_each)
      : place_(place),
        shown_(place, limits, for_each),
        received_(static_cast<std::size_t>(place.size)) {}

  PackedSequence& to(Rank rank) { return shown_.to(rank); }
  PackedSequence& from(Rank rank) { return received_[static_cast<std::size_t>(rank)]; }

  int stages() const override { return 2; }
  std::uint64_t steps() const override { return shown_.steps(); }
  void enqueue(int stage, std::uint64_t step, const IpcChunk& chunk) override {
    if (stage == 0) return shown_.pack(step, chunk);
    DType unit = DType::kI64;
    for (const PackedSequence& sequence : received_) {
      if (size_of(sequence.unit()) < size_of(unit)) unit = sequence.unit();
    }
    std::vector<CopyPiece> pieces;
    for (Rank rank = 0; rank < place_.size; ++rank) {
      pieces_out(from(rank), step * shown_.part(), shown_.part(),
                 chunk.of(rank) + shown_.place_for(place_.rank), pieces, size_of(unit));
    }
    copy_pieces(place_.device, place_.stream, {unit, unit, 1.0}, pieces);
  }

 private:
  IpcPlace place_;
  IpcShown shown_;
  std::vector<PackedSequence> received_;  // by rank
};

const std::byte* bytes_at(const void* data, std::size_t offset) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + offset;
}

}  // namespace

IpcShown::IpcShown(const IpcPlace& place, const IpcLimits& limits, bool for_each)
    : place_(place), sequences_(for_each ? static_cast<std::size_t>(place.size) : 1) {
  constexpr std::size_t kUnit = PackedSequence::kAlignment;
  part_ = limits.chunk_bytes / sequences_.size() / kUnit * kUnit;
}

std::uint64_t IpcShown::steps() const {
  std::size_t most = 0;
  for (const PackedSequence& sequence : sequences_) most = std::max(most, sequence.bytes());
  return (most + part_ - 1) / part_;
}

void IpcShown::pack(std::uint64_t step, const IpcChunk& chunk) const {
  DType unit = DType::kI64;
  for (const PackedSequence& sequence : sequences_) {
    if (size_of(sequence.unit()) < size_of(unit)) unit = sequence.unit();
  }
  std::vector<CopyPiece> pieces;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    pieces_in(sequences_[i], step * part_, part_, chunk.mine() + i * part_, pieces, size_of(unit));
  }
  copy_pieces(place_.device, place_.stream, {unit, unit, 1.0}, pieces);
}

void pieces_in(const PackedSequence& sequence, std::size_t begin, std::size_t bytes,
               std::byte* packed, std::vector<CopyPiece>& pieces, std::size_t unit) {
  sequence.visit(begin, begin + bytes, [&](std::byte* data, std::size_t offset, std::size_t count) {
    pieces.push_back({data, packed + offset, static_cast<std::int64_t>(count / unit)});
  });
}

void pieces_out(const PackedSequence& sequence, std::size_t begin, std::size_t bytes,
                const std::byte* packed, std::vector<CopyPiece>& pieces, std::size_t unit) {
  sequence.visit(begin, begin + bytes, [&](std::byte* data, std::size_t offset, std::size_t count) {
    pieces.push_back({packed + offset, data, static_cast<std::int64_t>(count / unit)});
  });
}

std::unique_ptr<IpcWork> ipc_broadcast(const IpcPlace& place, const IpcLimits& limits,
                                       std::span<const Slice> slices, Rank root) {
  auto work = std::make_unique<Movement>(place, limits, false);
  for (const Slice& slice : slices) {
    if (place.rank == root) work->to(0).add(slice.input.data, slice.input.bytes());
    work->from(root).add(slice.output.data, slice.output.bytes());
  }
  return work;
}

std::unique_ptr<IpcWork> ipc_all_gather(const IpcPlace& place, const IpcLimits& limits,
                                        std::span<const GatherSlice> slices) {
  auto work = std::make_unique<Movement>(place, limits, false);
  for (const GatherSlice& slice : slices) {
    work->to(0).add(slice.input, slice.bytes_of[static_cast<std::size_t>(place.rank)]);
    std::size_t offset = 0;
    for (Rank rank = 0; rank < place.size; ++rank) {
      const std::size_t bytes = slice.bytes_of[static_cast<std::size_t>(rank)];
      work->from(rank).add(bytes_at(slice.output, offset), bytes);
      offset += bytes;
    }
  }
  return work;
}

std::unique_ptr<IpcWork> ipc_all_to_all(const IpcPlace& place, const IpcLimits& limits,
                                        std::span<const ExchangeSlice> slices) {
  auto work = std::make_unique<Movement>(place, limits, true);
  for (const ExchangeSlice& slice : slices) {
    std::size_t sent = 0;
    std::size_t received = 0;
    for (Rank rank = 0; rank < place.size; ++rank) {
      const std::size_t to = slice.bytes_to[static_cast<std::size_t>(rank)];
      const std::size_t from = slice.bytes_from[static_cast<std::size_t>(rank)];
      work->to(rank).add(bytes_at(slice.input, sent), to);
      work->from(rank).add(bytes_at(slice.output, received), from);
      sent += to;
      received += from;
    }
  }
  return work;
}

}  // namespace hvd::engine
