#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/ports/collective.h"
#include "ops/host/adasum.h"
#include "ops/host/byte_sequence.h"

namespace hvd::host {

// Adasum of a batch, made of other operations of a Collective: each rank gets a range of every
// rank's vectors and combines those by the tree of adasum.h. At each level the ranks exchange their
// parts of the inner products and add them in rank order, so that all use the same weights. The
// batch moves in one piece, because the weights of a tensor depend on all of it.
class AdasumOperation final : public Operation {
 public:
  // Starts all its operations at once, in one order on all ranks, and advances each when the one
  // before is finished: requires a Collective that touches no memory before the first advance().
  // Slices of one floating dtype; `ready` is what their inputs wait for.
  AdasumOperation(Collective& collective, Rank rank, int size, std::vector<Fence> ready,
                  std::span<const Slice> slices, const Reduction& reduction);
  // The same bits, of which each rank keeps its part.
  AdasumOperation(Collective& collective, Rank rank, int size, std::vector<Fence> ready,
                  std::span<const ScatterSlice> slices, const Reduction& reduction);

  bool advance() override;
  bool withdraw() noexcept override;
  OperationStats stats() const override { return stats_; }

 private:
  // A region of the result that this rank keeps.
  struct Kept {
    std::size_t offset = 0;  // bytes from the start of the batch
    TensorView output;
  };

  void add(const TensorView& input, std::size_t kept_from, const TensorView& output);
  void start(Collective& collective);
  void pack();
  void multiply();
  void combine();
  void keep();

  // The range of elements that `rank` combines.
  std::size_t begin(std::size_t rank) const { return begins_.back() * rank / size_; }
  std::size_t bytes_of(std::size_t rank) const;
  std::byte* vector(int rank) const;
  void scale(std::byte* data, std::size_t bytes, double factor) const;
  template <typename Visit>
  void for_each_range(Visit visit) const;

  const std::size_t rank_;
  const std::size_t size_;
  std::vector<Fence> ready_;
  const Reduction reduction_;
  const std::vector<std::vector<AdasumPair>> levels_;
  DType dtype_ = DType::kF32;
  std::vector<std::size_t> begins_{0};  // of the tensors, in elements, and the end of the last one
  ByteSequence input_;
  std::vector<Kept> kept_;
  OperationStats stats_;

  Buffer packed_;                         // this rank's batch
  Buffer vectors_;                        // this rank's range, of all ranks
  std::vector<AdasumProducts> products_;  // by pair and tensor
  std::vector<AdasumProducts> all_products_;
  Buffer result_;
  // Scatter, one exchange of products a level, gather. Last: they use the rest.
  std::vector<std::unique_ptr<Operation>> operations_;
  std::size_t finished_ = 0;  // operations
  std::size_t level_ = 0;     // whose products are exchanged next
  bool is_packed_ = false;
};

}  // namespace hvd::host
