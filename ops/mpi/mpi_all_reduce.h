#pragma once

#include <span>
#include <vector>

#include "ops/mpi/byte_sequence.h"
#include "ops/mpi/mpi_operation.h"

namespace hvd {

// See MpiCollective. Requires: slices of one dtype.
class MpiAllReduce final : public MpiOperation {
 public:
  MpiAllReduce(std::shared_ptr<MpiCollectiveState> state, std::vector<Fence> ready,
               std::span<const Slice> slices, ReduceOp op, double scale);

 protected:
  bool next(MPI_Request* request) override;

 private:
  enum class Stage { kStart, kAllHere, kRangesHere, kGathered };

  void send_to_all(MPI_Request* request);
  void reduce_all();
  void scatter(MPI_Request* request);
  void reduce_range_and_gather(MPI_Request* request);
  // [first, last) of a piece of `numel` elements that `rank` reduces.
  std::size_t range_begin(std::size_t rank) const { return piece_numel_ * rank / size(); }
  std::size_t range_numel(std::size_t rank) const {
    return range_begin(rank + 1) - range_begin(rank);
  }
  // Where the reduced piece is put together: in the output, if it is one region there.
  std::byte* piece_result();

  DType dtype_ = DType::kF32;
  std::size_t element_bytes_ = 1;
  ReduceOp op_;
  double scale_;
  ByteSequence input_;
  ByteSequence output_;
  Stage stage_ = Stage::kStart;
  std::size_t done_bytes_ = 0;   // before the piece that is moving
  std::size_t piece_numel_ = 0;  // of that piece
  const std::byte* packed_ = nullptr;
  std::byte* received_ = nullptr;
  std::byte* result_ = nullptr;
  std::vector<int> send_counts_, send_offsets_, receive_counts_, receive_offsets_;
};

}  // namespace hvd
