#include "ops/mpi/mpi_reduce_scatter.h"

#include <algorithm>

#include "ops/host/reduce.h"
#include "ops/host/stopwatch.h"

namespace hvd {

// Bytes [first, first + share) of every part, as far as there are any.
class MpiReduceScatter::Piece final : public MpiPiece {
 public:
  Piece(MpiReduceScatter& operation, std::size_t first)
      : MpiPiece(operation), operation_(operation), first_(first) {}

  bool next() override {
    if (contributions_.empty()) {
      scatter();
      return true;
    }
    if (length(rank()) > 0) reduce();
    return false;
  }

 private:
  std::size_t length(std::size_t rank) const {
    const std::size_t total = operation_.inputs_[rank].bytes();
    return total > first_ ? std::min(operation_.share_, total - first_) : 0;
  }

  const std::byte* packed(std::size_t rank) {
    const host::ByteSequence& input = operation_.inputs_[rank];
    if (const std::byte* const place = input.whole(first_, length(rank))) return place;
    const host::Stopwatch packing(operation_.stats_.packing);
    std::byte* const place = scratch(length(rank));
    input.copy_to(place, first_, length(rank));
    return place;
  }

  void scatter() {
    const std::size_t bytes = length(rank());
    std::byte* const received = scratch(bytes * size());
    for (std::size_t r = 0; r < size(); ++r) {
      std::byte* const place = received + r * bytes;
      contributions_.push_back(place);
      if (r != rank()) receive(r, place, bytes, 0);
    }
    for (std::size_t r = 0; r < size(); ++r) {
      if (length(r) == 0) continue;
      const std::byte* const mine = packed(r);
      if (r == rank()) {
        contributions_[r] = mine;
      } else {
        send(r, mine, length(r), 0);
      }
    }
  }

  void reduce() {
    const std::size_t bytes = length(rank());
    std::byte* const place = operation_.output_.whole(first_, bytes);
    std::byte* const result = place != nullptr ? place : scratch(bytes);
    const Reduction& reduction = operation_.reduction_;
    host::reduce(operation_.dtype_, reduction.op, contributions_, result,
                 static_cast<std::int64_t>(bytes / size_of(operation_.dtype_)), reduction.prescale,
                 reduction.postscale);
    if (place != nullptr) return;
    const host::Stopwatch unpacking(operation_.stats_.unpacking);
    operation_.output_.copy_from(result, first_, bytes);
  }

  MpiReduceScatter& operation_;
  std::size_t first_;
  std::vector<const void*> contributions_;
};

MpiReduceScatter::MpiReduceScatter(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
                                   std::span<const ScatterSlice> slices, const Reduction& reduction)
    : MpiOperation(std::move(set), std::move(ready)), reduction_(reduction), inputs_(size()) {
  if (!slices.empty()) dtype_ = slices.front().input.dtype;
  const std::size_t element = size_of(dtype_);
  for (const ScatterSlice& slice : slices) {
    auto* place = static_cast<std::byte*>(slice.input.data);
    for (std::size_t r = 0; r < size(); ++r) {
      const std::size_t bytes = static_cast<std::size_t>(slice.numel_of[r]) * element;
      inputs_[r].append(place, bytes);
      place += bytes;
    }
    output_.append(slice.output.data, slice.output.bytes());
    stats_.packed_bytes += slice.input.bytes();
  }
  for (const host::ByteSequence& input : inputs_) longest_ = std::max(longest_, input.bytes());
  share_ = std::max<std::size_t>(1, limits().piece_bytes / size() / element) * element;
}

std::unique_ptr<MpiPiece> MpiReduceScatter::next_piece() {
  if (started_ >= longest_) return nullptr;
  started_ += share_;
  return std::make_unique<Piece>(*this, started_ - share_);
}

}  // namespace hvd
