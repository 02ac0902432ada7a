#include "ops/host/message_operation.h"

#include <algorithm>

#include "ops/host/reduce.h"
#include "ops/host/streaming_copy.h"

namespace hvd::engine::host {

// Bytes [first, last) of the batch.
class MessageAllReduce::Piece : public MessagePiece {
 public:
  Piece(MessageAllReduce& operation, std::size_t first, std::size_t last)
      : MessagePiece(operation), batch_(*operation.batch_), first_(first), last_(last) {}

 protected:
  enum Stage { kScatter, kGather };

  const std::byte* packed() {
    if (const std::byte* const place = batch_.input(first_, last_)) return place;
    const Stopwatch packing(stats_.packing);
    std::byte* const place = scratch(last_ - first_);
    batch_.pack(first_, last_, place);
    return place;
  }
  // Where the result is put together: in the output, if it stands there as it travels.
  std::byte* result_place() {
    std::byte* const place = batch_.output(first_, last_);
    return place != nullptr ? place : scratch(last_ - first_);
  }
  void unpack(const std::byte* result) {
    if (result == batch_.output(first_, last_)) return;
    const Stopwatch unpacking(stats_.unpacking);
    batch_.unpack(first_, last_, result);
  }

  const ReduceBatch& batch_;
  std::size_t first_, last_;
};

// All ranks get all of it and reduce it themselves.
class MessageAllReduce::WholePiece final : public Piece {
 public:
  using Piece::Piece;

  bool next() override {
    if (inputs_.empty()) {
      exchange();
      return true;
    }
    std::byte* const result = result_place();
    batch_.reduce(first_, last_, inputs_, result);
    unpack(result);
    return false;
  }

 private:
  void exchange() {
    const std::size_t bytes = last_ - first_;
    const std::byte* const mine = packed();
    std::byte* received = scratch(bytes * (size() - 1));
    for (std::size_t r = 0; r < size(); ++r) {
      if (r == rank()) {
        inputs_.push_back(mine);
        continue;
      }
      inputs_.push_back(received);
      receive(r, received, bytes, kScatter);
      send(r, mine, bytes, kScatter);
      received += bytes;
    }
  }

  std::vector<const void*> inputs_;
};

// Each rank gets a range of it, reduces that and sends the result to all.
class MessageAllReduce::ScatteredPiece final : public Piece {
 public:
  using Piece::Piece;

  bool next() override {
    if (inputs_.empty()) {
      scatter();
      return true;
    }
    if (result_ == nullptr) {
      reduce_and_gather();
      return true;
    }
    unpack(result_);
    return false;
  }

 private:
  // Where what `rank` reduces begins in the piece, and its length.
  std::size_t offset(std::size_t rank) const {
    return batch_.boundary(first_ + (last_ - first_) * rank / size()) - first_;
  }
  std::size_t length(std::size_t rank) const { return offset(rank + 1) - offset(rank); }

  void scatter() {
    const std::byte* const mine = packed();
    const std::size_t bytes = length(rank());
    std::byte* const received = scratch(bytes * size());
    for (std::size_t r = 0; r < size(); ++r) {
      std::byte* const place = received + r * bytes;
      inputs_.push_back(r == rank() ? mine + offset(r) : place);
      if (r != rank() && bytes > 0) receive(r, place, bytes, kScatter);
    }
    for (std::size_t r = 0; r < size(); ++r) {
      if (r != rank() && length(r) > 0) send(r, mine + offset(r), length(r), kScatter);
    }
  }

  void reduce_and_gather() {
    result_ = result_place();
    for (std::size_t r = 0; r < size(); ++r) {
      if (r != rank() && length(r) > 0) receive(r, result_ + offset(r), length(r), kGather);
    }
    std::byte* const mine = result_ + offset(rank());
    batch_.reduce(first_ + offset(rank()), first_ + offset(rank() + 1), inputs_, mine);
    for (std::size_t r = 0; r < size(); ++r) {
      if (r != rank() && length(rank()) > 0) send(r, mine, length(rank()), kGather);
    }
  }

  std::vector<const void*> inputs_;
  std::byte* result_ = nullptr;
};

MessageAllReduce::MessageAllReduce(std::shared_ptr<MessageSet> set, std::vector<Fence> ready,
                                   std::span<const Slice> slices, const Reduction& reduction)
    : MessageOperation(std::move(set), std::move(ready)),
      batch_(ReduceBatch::make(slices, reduction)) {
  stats_.packed_bytes = batch_->bytes();
  const bool small = batch_->bytes() * size() <= limits().small_bytes;
  // Between two ranks as many bytes travel either way, and none waits for what the other reduces.
  // Who encodes a sum again has to keep what that loses: one rank for each element.
  whole_ = reduction.wire == WireFormat::kNone && (small || size() == 2);
  piece_bytes_ = small ? batch_->bytes() : limits().piece_bytes;
}

std::unique_ptr<MessagePiece> MessageAllReduce::next_piece(std::size_t /*row*/) {
  const std::size_t first = started_;
  if (first == batch_->bytes()) return nullptr;
  started_ = batch_->boundary(first + piece_bytes_);
  if (whole_) return std::make_unique<WholePiece>(*this, first, started_);
  return std::make_unique<ScatteredPiece>(*this, first, started_);
}

// Bytes [first, first + share) of every part, as far as there are any.
class MessageReduceScatter::Piece final : public MessagePiece {
 public:
  Piece(MessageReduceScatter& operation, std::size_t first)
      : MessagePiece(operation), operation_(operation), first_(first) {}

  bool next() override {
    if (contributions_.empty()) {
      scatter();
      return true;
    }
    if (length(rank()) > 0) reduce();
    return false;
  }

 private:
  std::size_t length(std::size_t rank) const {
    const std::size_t total = operation_.inputs_[rank].bytes();
    return total > first_ ? std::min(operation_.share_, total - first_) : 0;
  }

  // Where a later piece waits for this one, all ranks of it say that they have come to it.
  bool meets(std::size_t bytes) const {
    return bytes > 0 || operation_.longest_ > operation_.share_ * operation_.limits().pieces;
  }

  void scatter() {
    const std::size_t bytes = length(rank());
    std::byte* const received = scratch(bytes * size());
    for (std::size_t r = 0; r < size(); ++r) {
      std::byte* const place = received + r * bytes;
      contributions_.push_back(place);
      if (r != rank() && meets(bytes)) receive(r, place, bytes, 0);
    }
    for (std::size_t r = 0; r < size(); ++r) {
      if (!meets(length(r))) continue;
      const std::byte* const mine =
          length(r) > 0 ? packed(operation_.inputs_[r], first_, length(r)) : nullptr;
      if (r == rank()) {
        contributions_[r] = mine;
      } else {
        send(r, mine, length(r), 0);
      }
    }
  }

  void reduce() {
    const std::size_t bytes = length(rank());
    std::byte* const result = place_for(operation_.output_, first_, bytes);
    const Reduction& reduction = operation_.reduction_;
    host::reduce(operation_.dtype_, reduction.op, contributions_, result,
                 static_cast<std::int64_t>(bytes / size_of(operation_.dtype_)), reduction.prescale,
                 reduction.postscale);
    unpack(result, operation_.output_, first_, bytes);
  }

  MessageReduceScatter& operation_;
  std::size_t first_;
  std::vector<const void*> contributions_;
};

MessageReduceScatter::MessageReduceScatter(std::shared_ptr<MessageSet> set,
                                           std::vector<Fence> ready,
                                           std::span<const ScatterSlice> slices,
                                           const Reduction& reduction)
    : MessageOperation(std::move(set), std::move(ready)), reduction_(reduction), inputs_(size()) {
  if (!slices.empty()) dtype_ = slices.front().input.dtype;
  const std::size_t element = size_of(dtype_);
  for (const ScatterSlice& slice : slices) {
    append_parts(inputs_, slice.input.data, slice.numel_of, element);
    output_.append(slice.output.data, slice.output.bytes());
    stats_.packed_bytes += slice.input.bytes();
  }
  longest_ = longest_of(inputs_);
  share_ = std::max<std::size_t>(1, limits().piece_bytes / size() / element) * element;
}

std::unique_ptr<MessagePiece> MessageReduceScatter::next_piece(std::size_t /*row*/) {
  if (started_ >= longest_) return nullptr;
  started_ += share_;
  return std::make_unique<Piece>(*this, started_ - share_);
}

}  // namespace hvd::engine::host
