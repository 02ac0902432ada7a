#include "ops/mpi/mpi_collective.h"

#include <algorithm>
#include <climits>
#include <string>

#include "core/base/status.h"
#include "ops/host/host_buffer.h"
#include "ops/mpi/byte_sequence.h"
#include "ops/mpi/mpi_all_reduce.h"

namespace hvd {
namespace {

class MpiBroadcast final : public MpiOperation {
 public:
  MpiBroadcast(std::shared_ptr<MpiCollectiveState> state, std::vector<Fence> ready,
               std::span<const Slice> slices, Rank root)
      : MpiOperation(std::move(state), std::move(ready)), root_(root) {
    for (const Slice& slice : slices) {
      output_.append(slice.output.data, slice.output.bytes());
      if (is_root()) input_.append(slice.input.data, slice.input.bytes());
    }
  }

 protected:
  bool next(MPI_Request* request) override {
    if (piece_ != nullptr) output_.copy_from(piece_, done_, count_);
    done_ += count_;
    if (done_ == output_.bytes()) return false;
    count_ = std::min(state().limits.piece_bytes, output_.bytes() - done_);
    const ByteSequence& source = is_root() ? input_ : output_;
    piece_ = source.whole(done_, count_);
    if (piece_ == nullptr) {
      piece_ = state().send.take(count_);
      if (is_root()) input_.copy_to(piece_, done_, count_);
    }
    check_mpi(MPI_Ibcast(piece_, static_cast<int>(count_), MPI_BYTE, root_, communicator().handle(),
                         request),
              "MPI_Ibcast");
    return true;
  }

 private:
  bool is_root() const { return communicator().rank() == root_; }

  Rank root_;
  ByteSequence input_;  // on the root
  ByteSequence output_;
  std::size_t done_ = 0;
  std::size_t count_ = 0;  // bytes of the piece that is moving
  std::byte* piece_ = nullptr;
};

class MpiAllGather final : public MpiOperation {
 public:
  MpiAllGather(std::shared_ptr<MpiCollectiveState> state, std::vector<Fence> ready,
               std::span<const GatherSlice> slices)
      : MpiOperation(std::move(state), std::move(ready)),
        outputs_(size()),
        counts_(size()),
        offsets_(size()) {
    for (const GatherSlice& slice : slices) {
      auto* place = static_cast<std::byte*>(slice.output);
      for (std::size_t r = 0; r < size(); ++r) {
        outputs_[r].append(place, slice.bytes_of[r]);
        place += slice.bytes_of[r];
      }
      // Sent from, never written to.
      input_.append(const_cast<void*>(slice.input), slice.bytes_of[rank()]);
    }
    for (const ByteSequence& output : outputs_) longest_ = std::max(longest_, output.bytes());
  }

 protected:
  // Each rank contributes its next bytes, at most its share of a piece, until all have sent all.
  bool next(MPI_Request* request) override {
    if (received_ != nullptr) take_in();
    if (done_ >= longest_) return false;
    share_ = std::max<std::size_t>(1, state().limits.piece_bytes / size());
    share_ = std::min(share_, longest_ - done_);
    received_ = state().receive.take(share_ * size());
    for (std::size_t r = 0; r < size(); ++r) {
      const std::size_t total = outputs_[r].bytes();
      counts_[r] = total > done_ ? static_cast<int>(std::min(share_, total - done_)) : 0;
      offsets_[r] = static_cast<int>(share_ * r);
    }
    const auto mine = static_cast<std::size_t>(counts_[rank()]);
    if (mine > 0) input_.copy_to(received_ + share_ * rank(), done_, mine);
    check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, received_, counts_.data(),
                              offsets_.data(), MPI_BYTE, communicator().handle(), request),
              "MPI_Iallgatherv");
    return true;
  }

 private:
  void take_in() {
    for (std::size_t r = 0; r < size(); ++r) {
      const auto count = static_cast<std::size_t>(counts_[r]);
      if (count > 0) outputs_[r].copy_from(received_ + share_ * r, done_, count);
    }
    done_ += share_;
  }

  ByteSequence input_;
  std::vector<ByteSequence> outputs_;  // where each rank's contribution goes
  std::size_t longest_ = 0;            // bytes of the longest contribution
  std::size_t done_ = 0;               // bytes of each contribution that have moved
  std::size_t share_ = 0;              // at most this many of each are moving
  std::byte* received_ = nullptr;
  std::vector<int> counts_, offsets_;
};

}  // namespace

MpiCollective::MpiCollective(std::shared_ptr<MpiCommunicator> communicator,
                             MpiCollectiveLimits limits)
    : state_(std::make_shared<MpiCollectiveState>()) {
  const auto size = static_cast<std::size_t>(communicator->size());
  if (limits.piece_bytes < size || limits.piece_bytes > INT_MAX || limits.small_bytes > INT_MAX) {
    throw InvalidArgumentError("pieces of " + std::to_string(limits.piece_bytes) +
                               " bytes: expected at least one byte a rank and at most INT_MAX");
  }
  state_->communicator = std::move(communicator);
  state_->limits = limits;
}

Buffer MpiCollective::allocate(std::size_t bytes) {
  return host::allocate_buffer(bytes);
}

void MpiCollective::after(const Fence& ready) {
  std::erase_if(ready_, [](const Fence& fence) { return fence.reached(); });
  if (!ready.reached()) ready_.push_back(ready);
}

std::unique_ptr<Operation> MpiCollective::all_reduce(std::span<const Slice> slices, ReduceOp op,
                                                     double scale) {
  for (const Slice& slice : slices) {
    if (slice.input.dtype != slices.front().input.dtype) {
      throw InvalidArgumentError("a fused all-reduce of " +
                                 std::string(name_of(slices.front().input.dtype)) + " and " +
                                 std::string(name_of(slice.input.dtype)));
    }
  }
  return std::make_unique<MpiAllReduce>(state_, ready_, slices, op, scale);
}

std::unique_ptr<Operation> MpiCollective::broadcast(std::span<const Slice> slices, Rank root) {
  if (root < 0 || root >= state_->communicator->size()) {
    throw InvalidArgumentError("broadcast from root " + std::to_string(root) + " of " +
                               std::to_string(state_->communicator->size()) + " ranks");
  }
  return std::make_unique<MpiBroadcast>(state_, ready_, slices, root);
}

std::unique_ptr<Operation> MpiCollective::all_gather(std::span<const GatherSlice> slices) {
  const auto size = static_cast<std::size_t>(state_->communicator->size());
  for (const GatherSlice& slice : slices) {
    if (slice.bytes_of.size() != size) {
      throw InvalidArgumentError("all-gather with the sizes of " +
                                 std::to_string(slice.bytes_of.size()) + " ranks among " +
                                 std::to_string(size));
    }
  }
  return std::make_unique<MpiAllGather>(state_, ready_, slices);
}

std::unique_ptr<Operation> MpiCollective::exchange(std::span<const std::int64_t> mine,
                                                   std::span<std::int64_t> all) {
  const auto size = static_cast<std::size_t>(state_->communicator->size());
  const GatherSlice slice = {mine.data(), all.data(),
                             std::vector<std::size_t>(size, mine.size_bytes())};
  return all_gather({&slice, 1});
}

void MpiCollective::abort() noexcept {
  state_->aborted = true;
  MpiEnvironment::instance().note_failure();
}

}  // namespace hvd
