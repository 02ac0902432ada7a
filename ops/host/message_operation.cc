#include "ops/host/message_operation.h"

#include <algorithm>
#include <bit>
#include <climits>

#include "ops/host/host_memory.h"
#include "ops/host/streaming_copy.h"

namespace hvd::host {
MessagePiece::MessagePiece(MessageOperation& operation)
    : stats_(operation.stats_),
      set_(*operation.set_),
      operation_(operation.number_),
      scratch_(set_.shared().pool),
      messages_(set_.shared().link->messages()) {}

void MessagePiece::send(std::size_t to, const std::byte* data, std::size_t bytes,
                        std::uint32_t stage) {
  if (bytes == 0) return;
  messages_->send(set_.world_rank(to), {set_.key(), operation_, stage}, {data, bytes});
}

void MessagePiece::receive(std::size_t from, std::byte* data, std::size_t bytes,
                           std::uint32_t stage) {
  if (bytes == 0) return;
  messages_->receive(set_.world_rank(from), {set_.key(), operation_, stage}, {data, bytes});
}

const std::byte* MessagePiece::packed(const ByteSequence& input, std::size_t first,
                                      std::size_t bytes) {
  if (const std::byte* const place = input.whole(first, bytes)) return place;
  const Stopwatch packing(stats_.packing);
  std::byte* const place = scratch(bytes);
  input.copy_to(place, first, bytes);
  return place;
}

std::byte* MessagePiece::place_for(const ByteSequence& output, std::size_t first,
                                   std::size_t bytes) {
  std::byte* const place = output.whole(first, bytes);
  return place != nullptr ? place : scratch(bytes);
}

void MessagePiece::unpack(const std::byte* from, const ByteSequence& output, std::size_t first,
                          std::size_t bytes) {
  if (from == output.whole(first, bytes)) return;
  const Stopwatch unpacking(stats_.unpacking);
  output.copy_from(from, first, bytes);
}

std::size_t MessagePiece::size() const noexcept {
  return set_.size();
}

std::size_t MessagePiece::rank() const noexcept {
  return set_.rank();
}

MessageOperation::MessageOperation(std::shared_ptr<MessageSet> set, std::vector<Fence> ready)
    : set_(std::move(set)), ready_(std::move(ready)), number_(set_->begin_operation()) {
  set_->shared().link->begin_work();
}

MessageOperation::~MessageOperation() {
  if (!MessageOperation::withdraw()) new std::deque<Running>(std::move(pieces_));
}

bool MessageOperation::withdraw() noexcept {
  if (!finished_) {
    finish();
    // The other ranks wait for what this one will not send.
    set_->abort();
    set_->shared().link->operation_failed();
  }
  std::erase_if(pieces_, [](const Running& each) { return each.piece->withdraw(); });
  return pieces_.empty();
}

void MessageOperation::finish() {
  finished_ = true;
  set_->end_operation(number_);
  set_->shared().link->end_work();
}

bool MessageOperation::advance() {
  if (finished_) return true;
  set_->throw_if_aborted();
  if (!all_reached(ready_) || !set_->may_post(number_)) return false;
  while (move_pieces() || start_pieces()) {
  }
  if (!all_started_ || !pieces_.empty()) return false;
  finish();
  return true;
}

// True if a piece moved.
bool MessageOperation::move_pieces() {
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
bool MessageOperation::start_pieces() {
  if (all_started_ || pieces_.size() == limits().pieces) return false;
  auto piece = next_piece();
  if (piece == nullptr) {
    all_started_ = true;
    return false;
  }
  pieces_.push_back({std::move(piece)});
  return true;
}

class MessageBroadcast::Piece final : public MessagePiece {
 public:
  Piece(MessageBroadcast& operation, std::size_t first, std::size_t bytes)
      : MessagePiece(operation),
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

  MessageBroadcast& operation_;
  std::size_t first_;
  std::size_t bytes_;
  std::size_t place_in_tree_;
  const std::byte* data_ = nullptr;
  bool passed_on_ = false;
};

MessageBroadcast::MessageBroadcast(std::shared_ptr<MessageSet> set, std::vector<Fence> ready,
                                   std::span<const Slice> slices, Rank root)
    : MessageOperation(std::move(set), std::move(ready)), root_(static_cast<std::size_t>(root)) {
  for (const Slice& slice : slices) {
    output_.append(slice.output.data, slice.output.bytes());
    if (rank() == root_) input_.append(slice.input.data, slice.input.bytes());
  }
  stats_.packed_bytes = input_.bytes();
}

std::unique_ptr<MessagePiece> MessageBroadcast::next_piece() {
  const std::size_t first = started_;
  if (first == output_.bytes()) return nullptr;
  started_ = std::min(output_.bytes(), first + limits().piece_bytes);
  return std::make_unique<Piece>(*this, first, started_ - first);
}

// Bytes [first, first + share) of what goes from each rank to each, as far as there are any.
class MessageExchange::Piece final : public MessagePiece {
 public:
  Piece(MessageExchange& operation, std::size_t first)
      : MessagePiece(operation), operation_(operation), first_(first) {}

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
  std::size_t length(const ByteSequence& sequence) const {
    const std::size_t total = sequence.bytes();
    return total > first_ ? std::min(operation_.share_, total - first_) : 0;
  }

  void receive_all() {
    received_.resize(size());
    for (std::size_t r = 0; r < size(); ++r) {
      const ByteSequence& output = operation_.parcels_.from(r);
      const std::size_t bytes = length(output);
      if (r == rank() || bytes == 0) continue;
      received_[r] = place_for(output, first_, bytes);
      receive(r, received_[r], bytes, 0);
    }
  }

  // Starts with the next rank, so that not all send to one at first.
  void send_all() {
    const std::byte* data = nullptr;
    const ByteSequence* last = nullptr;
    for (std::size_t i = 1; i <= size(); ++i) {
      const std::size_t to = (rank() + i) % size();
      const ByteSequence& input = operation_.parcels_.to(to);
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
    const Stopwatch unpacking(operation_.stats_.unpacking);
    for (std::size_t r = 0; r < size(); ++r) {
      const ByteSequence& output = operation_.parcels_.from(r);
      if (received_[r] != nullptr) output.copy_from(received_[r], first_, length(output));
    }
  }

  MessageExchange& operation_;
  std::size_t first_;
  std::vector<std::byte*> received_;  // by sender
};

std::unique_ptr<MessagePiece> MessageExchange::next_piece() {
  if (started_ >= parcels_.longest()) return nullptr;
  started_ += share_;
  return std::make_unique<Piece>(*this, started_ - share_);
}

}  // namespace hvd::host
