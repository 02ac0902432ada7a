#pragma once

#include <memory>
#include <span>

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

}  // namespace hvd
