#include "ops/mpi/mpi_all_reduce.h"

#include <algorithm>

#include "ops/host/reduce.h"

namespace hvd {

MpiAllReduce::MpiAllReduce(std::shared_ptr<MpiCollectiveState> state, std::vector<Fence> ready,
                           std::span<const Slice> slices, ReduceOp op, double scale)
    : MpiOperation(std::move(state), std::move(ready)),
      op_(op),
      scale_(scale),
      send_counts_(size()),
      send_offsets_(size()),
      receive_counts_(size()),
      receive_offsets_(size()) {
  if (!slices.empty()) dtype_ = slices.front().input.dtype;
  element_bytes_ = size_of(dtype_);
  for (const Slice& slice : slices) {
    input_.append(slice.input.data, slice.input.bytes());
    output_.append(slice.output.data, slice.output.bytes());
  }
}

bool MpiAllReduce::next(MPI_Request* request) {
  switch (stage_) {
    case Stage::kStart:
      if (input_.bytes() == 0) return false;
      if (input_.bytes() <= state().limits.small_bytes) {
        send_to_all(request);
      } else {
        scatter(request);
      }
      return true;
    case Stage::kAllHere:
      reduce_all();
      return false;
    case Stage::kRangesHere:
      reduce_range_and_gather(request);
      return true;
    case Stage::kGathered:
      const std::size_t bytes = piece_numel_ * element_bytes_;
      output_.copy_from(result_, done_bytes_, bytes);
      done_bytes_ += bytes;
      if (done_bytes_ == input_.bytes()) return false;
      scatter(request);
      return true;
  }
  return false;
}

void MpiAllReduce::send_to_all(MPI_Request* request) {
  const std::size_t bytes = input_.bytes();
  piece_numel_ = bytes / element_bytes_;
  received_ = state().receive.take(bytes * size());
  input_.copy_to(received_ + rank() * bytes, 0, bytes);
  const int count = static_cast<int>(bytes);
  check_mpi(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, received_, count, MPI_BYTE,
                           communicator().handle(), request),
            "MPI_Iallgather");
  stage_ = Stage::kAllHere;
}

void MpiAllReduce::reduce_all() {
  std::vector<const void*> inputs;
  for (std::size_t r = 0; r < size(); ++r) inputs.push_back(received_ + r * input_.bytes());
  result_ = piece_result();
  host::reduce(dtype_, op_, inputs, result_, static_cast<std::int64_t>(piece_numel_), scale_);
  output_.copy_from(result_, 0, output_.bytes());
}

std::byte* MpiAllReduce::piece_result() {
  const std::size_t bytes = piece_numel_ * element_bytes_;
  std::byte* const place = output_.whole(done_bytes_, bytes);
  return place != nullptr ? place : state().result.take(bytes);
}

void MpiAllReduce::scatter(MPI_Request* request) {
  const std::size_t most = std::max<std::size_t>(1, state().limits.piece_bytes / element_bytes_);
  piece_numel_ = std::min(most, (input_.bytes() - done_bytes_) / element_bytes_);
  const std::size_t piece = piece_numel_ * element_bytes_;
  packed_ = input_.whole(done_bytes_, piece);
  if (packed_ == nullptr) {
    std::byte* const buffer = state().send.take(piece);
    input_.copy_to(buffer, done_bytes_, piece);
    packed_ = buffer;
  }
  const std::size_t mine = range_numel(rank()) * element_bytes_;
  received_ = state().receive.take(mine * size());
  for (std::size_t r = 0; r < size(); ++r) {
    const bool other = r != rank();  // this rank's own part is read where it stands
    send_counts_[r] = other ? static_cast<int>(range_numel(r) * element_bytes_) : 0;
    send_offsets_[r] = static_cast<int>(range_begin(r) * element_bytes_);
    receive_counts_[r] = other ? static_cast<int>(mine) : 0;
    receive_offsets_[r] = static_cast<int>(mine * r);
  }
  check_mpi(MPI_Ialltoallv(packed_, send_counts_.data(), send_offsets_.data(), MPI_BYTE, received_,
                           receive_counts_.data(), receive_offsets_.data(), MPI_BYTE,
                           communicator().handle(), request),
            "MPI_Ialltoallv");
  stage_ = Stage::kRangesHere;
}

void MpiAllReduce::reduce_range_and_gather(MPI_Request* request) {
  const std::size_t mine = range_numel(rank()) * element_bytes_;
  const std::size_t at = range_begin(rank()) * element_bytes_;
  std::vector<const void*> inputs;
  for (std::size_t r = 0; r < size(); ++r) {
    inputs.push_back(r == rank() ? packed_ + at : received_ + r * mine);
  }
  result_ = piece_result();
  host::reduce(dtype_, op_, inputs, result_ + at, static_cast<std::int64_t>(range_numel(rank())),
               scale_);
  for (std::size_t r = 0; r < size(); ++r) {
    receive_counts_[r] = static_cast<int>(range_numel(r) * element_bytes_);
    receive_offsets_[r] = send_offsets_[r];
  }
  check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, result_, receive_counts_.data(),
                            receive_offsets_.data(), MPI_BYTE, communicator().handle(), request),
            "MPI_Iallgatherv");
  stage_ = Stage::kGathered;
}

}  // namespace hvd
