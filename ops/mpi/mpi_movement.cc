#include "ops/mpi/mpi_movement.h"

#include <algorithm>
#include <bit>

#include "ops/host/streaming_copy.h"

namespace hvd {

class MpiBroadcast::Piece final : public MpiPiece {
 public:
  Piece(MpiBroadcast& operation, std::size_t first, std::size_t bytes)
      : MpiPiece(operation),
        operation_(operation),
        first_(first),
        bytes_(bytes),
        place_in_tree_((rank() + size() - operation.root_) % size()) {}

  bool next() override {
    if (data_ == nullptr) {
      if (place_in_tree_ == 0) {
        data_ = packed(operation_.input_, first_, bytes_);
        send_to_children();
      } else {
        receive_from_parent();
      }
      return true;
    }
    if (place_in_tree_ != 0 && !passed_on_) {
      send_to_children();
      return true;
    }
    unpack(data_, operation_.output_, first_, bytes_);
    return false;
  }

 private:
  // Ranks are counted from the root. The parent of a place is the place without its lowest bit.
  std::size_t rank_at(std::size_t place) const { return (place + operation_.root_) % size(); }

  void receive_from_parent() {
    std::byte* const place = place_for(operation_.output_, first_, bytes_);
    receive(rank_at(place_in_tree_ & (place_in_tree_ - 1)), place, bytes_, 0);
    data_ = place;
  }

  void send_to_children() {
    passed_on_ = true;
    const std::size_t mine =
        place_in_tree_ == 0 ? std::bit_ceil(size()) : place_in_tree_ & (~place_in_tree_ + 1);
    for (std::size_t bit = mine / 2; bit > 0; bit /= 2) {
      if (place_in_tree_ + bit < size()) send(rank_at(place_in_tree_ + bit), data_, bytes_, 0);
    }
  }

  MpiBroadcast& operation_;
  std::size_t first_;
  std::size_t bytes_;
  std::size_t place_in_tree_;
  const std::byte* data_ = nullptr;
  bool passed_on_ = false;
};

MpiBroadcast::MpiBroadcast(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
                           std::span<const Slice> slices, Rank root)
    : MpiOperation(std::move(set), std::move(ready)), root_(static_cast<std::size_t>(root)) {
  for (const Slice& slice : slices) {
    output_.append(slice.output.data, slice.output.bytes());
    if (rank() == root_) input_.append(slice.input.data, slice.input.bytes());
  }
  stats_.packed_bytes = input_.bytes();
}

std::unique_ptr<MpiPiece> MpiBroadcast::next_piece() {
  const std::size_t first = started_;
  if (first == output_.bytes()) return nullptr;
  started_ = std::min(output_.bytes(), first + limits().piece_bytes);
  return std::make_unique<Piece>(*this, first, started_ - first);
}

// Bytes [first, first + share) of what goes from each rank to each, as far as there are any.
class MpiExchange::Piece final : public MpiPiece {
 public:
  Piece(MpiExchange& operation, std::size_t first)
      : MpiPiece(operation), operation_(operation), first_(first) {}

  bool next() override {
    if (received_.empty()) {
      receive_all();
      send_all();
      return true;
    }
    take_in();
    return false;
  }

 private:
  std::size_t length(const host::ByteSequence& sequence) const {
    const std::size_t total = sequence.bytes();
    return total > first_ ? std::min(operation_.share_, total - first_) : 0;
  }

  void receive_all() {
    received_.resize(size());
    for (std::size_t r = 0; r < size(); ++r) {
      const host::ByteSequence& output = operation_.outputs_[r];
      const std::size_t bytes = length(output);
      if (r == rank() || bytes == 0) continue;
      received_[r] = place_for(output, first_, bytes);
      receive(r, received_[r], bytes, 0);
    }
  }

  // Starts with the next rank, so that not all send to one at first.
  void send_all() {
    const std::byte* data = nullptr;
    const host::ByteSequence* last = nullptr;
    for (std::size_t i = 1; i <= size(); ++i) {
      const std::size_t to = (rank() + i) % size();
      const host::ByteSequence& input = *operation_.inputs_[to];
      const std::size_t bytes = length(input);
      if (bytes == 0) continue;
      if (last != &input) data = packed(input, first_, bytes);
      last = &input;
      if (to == rank()) {
        operation_.outputs_[to].copy_from(data, first_, bytes);
      } else {
        send(to, data, bytes, 0);
      }
    }
  }

  void take_in() {
    const host::Stopwatch unpacking(operation_.stats_.unpacking);
    for (std::size_t r = 0; r < size(); ++r) {
      const host::ByteSequence& output = operation_.outputs_[r];
      if (received_[r] != nullptr) output.copy_from(received_[r], first_, length(output));
    }
  }

  MpiExchange& operation_;
  std::size_t first_;
  std::vector<std::byte*> received_;  // by sender
};

MpiExchange::MpiExchange(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
                         std::span<const GatherSlice> slices)
    : MpiOperation(std::move(set), std::move(ready)), outputs_(size()) {
  const auto input = std::make_shared<host::ByteSequence>();
  for (const GatherSlice& slice : slices) {
    host::append_parts(outputs_, slice.output, slice.bytes_of);
    // Sent from, never written to.
    input->append(const_cast<void*>(slice.input), slice.bytes_of[rank()]);
  }
  inputs_.assign(size(), input);
  stats_.packed_bytes = input->bytes();
  prepare();
}

MpiExchange::MpiExchange(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
                         std::span<const ExchangeSlice> slices)
    : MpiOperation(std::move(set), std::move(ready)), outputs_(size()) {
  for (std::size_t r = 0; r < size(); ++r)
    inputs_.push_back(std::make_shared<host::ByteSequence>());
  for (const ExchangeSlice& slice : slices) {
    auto* from = static_cast<std::byte*>(const_cast<void*>(slice.input));
    auto* to = static_cast<std::byte*>(slice.output);
    for (std::size_t r = 0; r < size(); ++r) {
      inputs_[r]->append(from, slice.bytes_to[r]);
      outputs_[r].append(to, slice.bytes_from[r]);
      from += slice.bytes_to[r];
      to += slice.bytes_from[r];
    }
  }
  for (const auto& input : inputs_) stats_.packed_bytes += input->bytes();
  prepare();
}

void MpiExchange::prepare() {
  for (const auto& input : inputs_) longest_ = std::max(longest_, input->bytes());
  for (const host::ByteSequence& output : outputs_) longest_ = std::max(longest_, output.bytes());
  share_ = std::max<std::size_t>(1, limits().piece_bytes / size());
}

std::unique_ptr<MpiPiece> MpiExchange::next_piece() {
  if (started_ >= longest_) return nullptr;
  started_ += share_;
  return std::make_unique<Piece>(*this, started_ - share_);
}

}  // namespace hvd
