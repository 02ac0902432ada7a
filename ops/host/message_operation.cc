#include "ops/host/message_operation.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <climits>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "ops/host/host_memory.h"
#include "ops/host/streaming_copy.h"

namespace hvd::engine::host {
namespace {

// How long the reason of a rank that gave an operation up may take: it comes as a control message.
constexpr Duration kReasonLimit = std::chrono::milliseconds(500);

}  // namespace

MessagePiece::MessagePiece(MessageOperation& operation)
    : stats_(operation.stats_),
      set_(*operation.set_),
      operation_(operation.number_),
      scratch_(set_.shared().pool),
      messages_(set_.shared().link->messages()) {}

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

// What came in place of the data is not to be used. The reason ends the job before the limit.
bool MessagePiece::wait_for_reason() {
  const TimePoint now = Clock::now();
  if (!given_up_at_) given_up_at_ = now;
  if (now < *given_up_at_ + kReasonLimit) return false;
  throw AbortedError("another rank gave up a collective operation that this one takes part in");
}

MessageOperation::MessageOperation(std::shared_ptr<MessageSet> set, std::vector<Fence> ready,
                                   std::size_t rows)
    : set_(std::move(set)), ready_(std::move(ready)), number_(set_->begin_operation()) {
  rows_.reserve(rows);
  for (std::size_t number = 0; number < rows; ++number) rows_.push_back({number});
  set_->shared().link->begin_work();
}

MessageOperation::~MessageOperation() {
  if (!MessageOperation::withdraw()) new std::vector<Row>(std::move(rows_));
}

bool MessageOperation::withdraw() noexcept {
  if (!finished_) {
    finish();
    // The other ranks wait for what this one will not send.
    set_->abort();
    set_->shared().link->operation_failed();
  }
  std::erase_if(rows_, [](Row& row) {
    std::erase_if(row.pieces, [](const Running& each) { return each.piece->withdraw(); });
    return row.pieces.empty();
  });
  return rows_.empty();
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
  // Until nothing moves in a row: one question is enough when nothing has come, and the next call
  // asks about the next row.
  while (!rows_.empty()) {
    turn_ %= rows_.size();
    Row& row = rows_[turn_];
    bool moved = false;
    while (move_pieces(row) || start_pieces(row)) moved = true;
    if (row.all_started && row.pieces.empty()) {
      rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(turn_));
      continue;
    }
    ++turn_;
    if (!moved) return false;
  }
  finish();
  return true;
}

// True if a piece moved.
bool MessageOperation::move_pieces(Row& row) {
  bool moved = false;
  int limit = INT_MAX;  // the stage of the piece in front
  for (auto each = row.pieces.begin(); each != row.pieces.end();) {
    bool done = false;
    while (!done && each->stage < limit && each->piece->arrived()) {
      done = !each->piece->next();
      ++each->stage;
      moved = true;
    }
    if (done) {
      each = row.pieces.erase(each);
    } else {
      limit = each->stage;
      ++each;
    }
  }
  return moved;
}

// True if a piece started.
bool MessageOperation::start_pieces(Row& row) {
  const auto takes_turn = [](const Running& each) { return each.piece->takes_turn(); };
  const auto moving = std::ranges::count_if(row.pieces, takes_turn);
  if (row.all_started || static_cast<std::size_t>(moving) == limits().pieces) return false;
  auto piece = next_piece(row.number);
  if (piece == nullptr) {
    row.all_started = true;
    return false;
  }
  row.pieces.push_back({std::move(piece)});
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
    if (!passed_on_) send_to_children();
    if (unpacked_) return false;
    unpacked_ = true;
    unpack(data_, operation_.output_, first_, bytes_);
    return true;
  }
  // What waits for its children alone does not keep this rank from receiving more.
  bool takes_turn() const override { return place_in_tree_ == 0 || !passed_on_; }

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
  bool unpacked_ = false;
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

std::unique_ptr<MessagePiece> MessageBroadcast::next_piece(std::size_t /*row*/) {
  const std::size_t first = started_;
  if (first == output_.bytes()) return nullptr;
  started_ = std::min(output_.bytes(), first + limits().piece_bytes);
  return std::make_unique<Piece>(*this, first, started_ - first);
}

// Bytes [first, first + bytes) of what comes from one rank.
class MessageExchange::ReceivedPiece final : public MessagePiece {
 public:
  ReceivedPiece(MessageExchange& operation, std::size_t from, std::size_t first, std::size_t bytes)
      : MessagePiece(operation),
        output_(operation.parcels_.from(from)),
        from_(from),
        first_(first),
        bytes_(bytes) {}

  bool next() override {
    if (place_ == nullptr) {
      place_ = place_for(output_, first_, bytes_);
      receive(from_, place_, bytes_, 0);
      return true;
    }
    unpack(place_, output_, first_, bytes_);
    return false;
  }

 private:
  const ByteSequence& output_;
  std::size_t from_;
  std::size_t first_;
  std::size_t bytes_;
  std::byte* place_ = nullptr;
};

// Bytes [first, first + share) of what goes to each rank, as far as there are any.
class MessageExchange::SentPiece final : public MessagePiece {
 public:
  SentPiece(MessageExchange& operation, std::size_t first)
      : MessagePiece(operation), operation_(operation), first_(first) {}

  bool next() override {
    if (sent_) return false;
    send_all();
    sent_ = true;
    return true;
  }

 private:
  // Starts with the next rank, so that not all send to one at first.
  void send_all() {
    const std::byte* data = nullptr;
    const ByteSequence* last = nullptr;
    for (std::size_t i = 1; i <= size(); ++i) {
      const std::size_t to = (rank() + i) % size();
      const ByteSequence& input = operation_.parcels_.to(to);
      if (input.bytes() <= first_) continue;
      const std::size_t bytes = std::min(operation_.share_, input.bytes() - first_);
      if (last != &input) data = packed(input, first_, bytes);
      last = &input;
      if (to == rank()) {
        operation_.parcels_.from(to).copy_from(data, first_, bytes);
      } else {
        send(to, data, bytes, 0);
      }
    }
  }

  MessageExchange& operation_;
  std::size_t first_;
  bool sent_ = false;
};

// The last row is that of this rank, which sends: what others send meets a receive.
std::unique_ptr<MessagePiece> MessageExchange::next_piece(std::size_t row) {
  const std::size_t from = (rank() + 1 + row) % size();
  const bool sends = from == rank();
  const std::size_t bytes = sends ? parcels_.longest_to() : parcels_.from(from).bytes();
  const std::size_t first = started_[row];
  if (first >= bytes) return nullptr;
  started_[row] = std::min(bytes, first + share_);
  if (sends) return std::make_unique<SentPiece>(*this, first);
  return std::make_unique<ReceivedPiece>(*this, from, first, started_[row] - first);
}

}  // namespace hvd::engine::host
