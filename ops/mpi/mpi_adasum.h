#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/host/adasum.h"
#include "ops/mpi/byte_sequence.h"
#include "ops/mpi/mpi_operation.h"

namespace hvd {

// Adasum of a batch: each rank gets a range of every rank's vectors and combines those by the tree
// of ops/host/adasum.h. At each level the ranks exchange their parts of the inner products and add
// them in rank order, so that all use the same weights. The batch moves in one piece, because the
// weights of a tensor depend on all of it.
class MpiAdasum final : public MpiOperation {
 public:
  // Requires: slices of one floating dtype.
  MpiAdasum(std::shared_ptr<MpiSet> set, std::vector<Fence> ready, std::span<const Slice> slices,
            const Reduction& reduction);
  // The same bits, of which each rank keeps its part.
  MpiAdasum(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
            std::span<const ScatterSlice> slices, const Reduction& reduction);

 protected:
  std::unique_ptr<MpiPiece> next_piece() override;

 private:
  class Piece;

  // A region of the result that this rank keeps.
  struct Kept {
    std::size_t offset = 0;  // bytes from the start of the batch
    TensorView output;
  };

  void add(const TensorView& input, std::size_t kept_from, const TensorView& output);

  Reduction reduction_;
  DType dtype_ = DType::kF32;
  std::vector<std::vector<host::AdasumPair>> levels_;
  std::vector<std::size_t> begins_{0};  // of the tensors, in elements, and the end of the last one
  ByteSequence input_;
  std::vector<Kept> kept_;
  bool started_ = false;
};

}  // namespace hvd
