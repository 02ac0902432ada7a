#pragma once

#include <memory>
#include <span>

#include "ops/host/byte_sequence.h"
#include "ops/mpi/mpi_operation.h"

namespace hvd {

// From the root along a binomial tree, piece by piece.
class MpiBroadcast final : public MpiOperation {
 public:
  MpiBroadcast(std::shared_ptr<MpiSet> set, std::vector<Fence> ready, std::span<const Slice> slices,
               Rank root);

 protected:
  std::unique_ptr<MpiPiece> next_piece() override;

 private:
  class Piece;

  std::size_t root_;
  host::ByteSequence input_;  // on the root
  host::ByteSequence output_;
  std::size_t started_ = 0;  // bytes of the pieces before the next one
};

// From every rank straight to every other one, piece by piece.
class MpiExchange final : public MpiOperation {
 public:
  MpiExchange(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
              std::span<const GatherSlice> slices);
  MpiExchange(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
              std::span<const ExchangeSlice> slices);

 protected:
  std::unique_ptr<MpiPiece> next_piece() override;

 private:
  class Piece;

  void prepare();

  std::vector<std::shared_ptr<host::ByteSequence>> inputs_;  // by receiver; may be one for all
  std::vector<host::ByteSequence> outputs_;                  // by sender
  std::size_t longest_ = 0;                                  // bytes of the longest of them
  std::size_t share_ = 0;                                    // bytes of each that make a piece
  std::size_t started_ = 0;  // bytes of each in the pieces before the next one
};

}  // namespace hvd
