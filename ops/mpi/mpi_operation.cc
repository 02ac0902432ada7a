#include "ops/mpi/mpi_operation.h"

#include <algorithm>
#include <bit>
#include <climits>

#include "ops/host/host_memory.h"
#include "ops/host/streaming_copy.h"

namespace hvd {
namespace {

constexpr std::size_t kPieces = 2;  // on their way at a time: one moves while one is reduced

}  // namespace

MpiPiece::MpiPiece(MpiOperation& operation)
    : stats_(operation.stats_),
      set_(*operation.set_),
      first_tag_(set_.first_tag(operation.number_)),
      scratch_(set_.shared().pool),
      pending_(set_.shared().communicator, set_.shared().limits.message_bytes) {}

void MpiPiece::send(std::size_t to, const std::byte* data, std::size_t bytes, int stage) {
  pending_.send(set_.world_rank(to), first_tag_ + stage, data, bytes);
}

void MpiPiece::receive(std::size_t from, std::byte* data, std::size_t bytes, int stage) {
  pending_.receive(set_.world_rank(from), first_tag_ + stage, data, bytes);
}

const std::byte* MpiPiece::packed(const host::ByteSequence& input, std::size_t first,
                                  std::size_t bytes) {
  if (const std::byte* const place = input.whole(first, bytes)) return place;
  const host::Stopwatch packing(stats_.packing);
  std::byte* const place = scratch(bytes);
  input.copy_to(place, first, bytes);
  return place;
}

std::byte* MpiPiece::place_for(const host::ByteSequence& output, std::size_t first,
                               std::size_t bytes) {
  std::byte* const place = output.whole(first, bytes);
  return place != nullptr ? place : scratch(bytes);
}

void MpiPiece::unpack(const std::byte* from, const host::ByteSequence& output, std::size_t first,
                      std::size_t bytes) {
  if (from == output.whole(first, bytes)) return;
  const host::Stopwatch unpacking(stats_.unpacking);
  output.copy_from(from, first, bytes);
}

std::size_t MpiPiece::size() const noexcept {
  return set_.size();
}

std::size_t MpiPiece::rank() const noexcept {
  return set_.rank();
}

MpiOperation::MpiOperation(std::shared_ptr<MpiSet> set, std::vector<Fence> ready)
    : set_(std::move(set)), ready_(std::move(ready)), number_(set_->begin_operation()) {
  set_->shared().communicator->begin_work();
}

MpiOperation::~MpiOperation() {
  if (!MpiOperation::withdraw()) new std::deque<Running>(std::move(pieces_));
}

bool MpiOperation::withdraw() noexcept {
  if (!finished_) {
    finish();
    // The other ranks wait for what this one will not send.
    set_->abort();
    MpiEnvironment::instance().note_failure();
  }
  std::erase_if(pieces_, [](const Running& each) { return each.piece->withdraw(); });
  return pieces_.empty();
}

void MpiOperation::finish() {
  finished_ = true;
  set_->end_operation(number_);
  set_->shared().communicator->end_work();
}

bool MpiOperation::advance() {
  if (finished_) return true;
  set_->throw_if_aborted();
  if (!host::all_reached(ready_) || !set_->may_post(number_)) return false;
  while (move_pieces() || start_pieces()) {
  }
  if (!all_started_ || !pieces_.empty()) return false;
  finish();
  return true;
}

// True if a piece moved.
bool MpiOperation::move_pieces() {
  bool moved = false;
  int limit = INT_MAX;  // the stage of the piece in front
  for (auto each = pieces_.begin(); each != pieces_.end();) {
    bool done = false;
    while (!done && each->stage < limit && each->piece->arrived()) {
      done = !each->piece->next();
      ++each->stage;
      moved = true;
    }
    if (done) {
      each = pieces_.erase(each);
    } else {
      limit = each->stage;
      ++each;
    }
  }
  return moved;
}

// True if a piece started.
bool MpiOperation::start_pieces() {
  if (all_started_ || pieces_.size() == kPieces) return false;
  auto piece = next_piece();
  if (piece == nullptr) {
    all_started_ = true;
    return false;
  }
  pieces_.push_back({std::move(piece)});
  return true;
}

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
      const host::ByteSequence& output = operation_.parcels_.from(r);
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
      const host::ByteSequence& input = operation_.parcels_.to(to);
      const std::size_t bytes = length(input);
      if (bytes == 0) continue;
      if (last != &input) data = packed(input, first_, bytes);
      last = &input;
      if (to == rank()) {
        operation_.parcels_.from(to).copy_from(data, first_, bytes);
      } else {
        send(to, data, bytes, 0);
      }
    }
  }

  void take_in() {
    const host::Stopwatch unpacking(operation_.stats_.unpacking);
    for (std::size_t r = 0; r < size(); ++r) {
      const host::ByteSequence& output = operation_.parcels_.from(r);
      if (received_[r] != nullptr) output.copy_from(received_[r], first_, length(output));
    }
  }

  MpiExchange& operation_;
  std::size_t first_;
  std::vector<std::byte*> received_;  // by sender
};

std::unique_ptr<MpiPiece> MpiExchange::next_piece() {
  if (started_ >= parcels_.longest()) return nullptr;
  started_ += share_;
  return std::make_unique<Piece>(*this, started_ - share_);
}

}  // namespace hvd
