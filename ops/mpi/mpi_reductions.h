#pragma once

#include <memory>
#include <span>

#include "ops/host/byte_sequence.h"
#include "ops/host/reduce_batch.h"
#include "ops/mpi/mpi_operation.h"

namespace hvd {

// See MpiCollective. Requires: slices of one dtype, and not Adasum.
class MpiAllReduce final : public MpiOperation {
 public:
  MpiAllReduce(std::shared_ptr<MpiSet> set, std::vector<Fence> ready, std::span<const Slice> slices,
               const Reduction& reduction);

 protected:
  std::unique_ptr<MpiPiece> next_piece() override;

 private:
  class Piece;
  class WholePiece;
  class ScatteredPiece;

  std::unique_ptr<host::ReduceBatch> batch_;
  bool small_;
  std::size_t piece_bytes_;
  std::size_t started_ = 0;  // bytes of the pieces before the next one
};

// See MpiCollective. Requires: slices of one dtype whose parts add up.
class MpiReduceScatter final : public MpiOperation {
 public:
  MpiReduceScatter(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
                   std::span<const ScatterSlice> slices, const Reduction& reduction);

 protected:
  std::unique_ptr<MpiPiece> next_piece() override;

 private:
  class Piece;

  Reduction reduction_;
  DType dtype_ = DType::kF32;
  std::vector<host::ByteSequence> inputs_;  // what this rank contributes to the part of each rank
  host::ByteSequence output_;
  std::size_t longest_ = 0;  // bytes of the longest part
  std::size_t share_;        // bytes of each part that make a piece
  std::size_t started_ = 0;  // bytes of each part in the pieces before the next one
};

}  // namespace hvd
