#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/ports/collective.h"
#include "ops/host/byte_sequence.h"
#include "ops/host/message_set.h"
#include "ops/host/reduce_batch.h"

namespace hvd::engine::host {

class MessageOperation;

// A part of an operation: messages, local work, messages and so on.
class MessagePiece {
 public:
  explicit MessagePiece(MessageOperation& operation);
  virtual ~MessagePiece() = default;
  MessagePiece(const MessagePiece&) = delete;
  MessagePiece& operator=(const MessagePiece&) = delete;

  // True when all that was posted has moved. Throws AbortedError when another rank gave the
  // operation up and has not said why soon afterwards.
  bool arrived() { return messages_->arrived() && (messages_->complete() || wait_for_reason()); }
  // Requires: arrived(). Does the local work that follows and posts the next messages; false when
  // there are none and the piece is done.
  virtual bool next() = 0;
  // Whether it is one of those of its row of which a few are on their way at a time.
  virtual bool takes_turn() const { return true; }
  // Gives up; false if the link still uses memory of the piece.
  bool withdraw() noexcept { return messages_->withdraw(); }

 protected:
  // To and from a rank of the set, also nothing. Messages of one stage between two ranks arrive in
  // the order in which pieces post them.
  void send(std::size_t to, const std::byte* data, std::size_t bytes, std::uint32_t stage) {
    messages_->send(set_.world_rank(to), {set_.key(), operation_, stage}, {data, bytes});
  }
  void receive(std::size_t from, std::byte* data, std::size_t bytes, std::uint32_t stage) {
    messages_->receive(set_.world_rank(from), {set_.key(), operation_, stage}, {data, bytes});
  }
  std::byte* scratch(std::size_t bytes) { return scratch_.take(bytes); }
  // [first, first + bytes) of a sequence in one region: where it stands, or a copy.
  const std::byte* packed(const ByteSequence& input, std::size_t first, std::size_t bytes);
  // Where to put it together: where it stands, or in scratch memory; then it has to be unpacked.
  std::byte* place_for(const ByteSequence& output, std::size_t first, std::size_t bytes);
  void unpack(const std::byte* from, const ByteSequence& output, std::size_t first,
              std::size_t bytes);
  std::size_t size() const noexcept { return set_.size(); }
  std::size_t rank() const noexcept { return set_.rank(); }

  OperationStats& stats_;

 private:
  bool wait_for_reason();

  const MessageSet& set_;
  std::uint64_t operation_;
  Scratch scratch_;  // outlives the messages
  std::unique_ptr<Messages> messages_;
  std::optional<TimePoint> given_up_at_;  // by another rank
};

// An operation is one or more rows of pieces, of each of which a few are on their way at a time. In
// a row they start in order, and none enters a stage before those in front of it have. Between
// rows, and between operations, nothing is in order: what keeps that free of deadlock over a link
// that has one stream for each pair of ranks is in ops/README.md.
class MessageOperation : public Operation {
 public:
  MessageOperation(std::shared_ptr<MessageSet> set, std::vector<Fence> ready, std::size_t rows = 1);
  // Withdraws it. What the link still uses of the operation's own memory is left to it; whoever
  // wants that of tensors kept calls withdraw() before.
  ~MessageOperation() override;
  MessageOperation(const MessageOperation&) = delete;
  MessageOperation& operator=(const MessageOperation&) = delete;

  bool advance() final;
  // If it was not finished, the set is not usable any more.
  bool withdraw() noexcept final;
  OperationStats stats() const final { return stats_; }

 protected:
  // nullptr after the last one.
  virtual std::unique_ptr<MessagePiece> next_piece(std::size_t row) = 0;

  OperationStats stats_;

  const MessageLimits& limits() const noexcept { return set_->shared().link->limits(); }
  std::size_t size() const noexcept { return set_->size(); }
  std::size_t rank() const noexcept { return set_->rank(); }

 private:
  friend class MessagePiece;
  struct Running {
    std::unique_ptr<MessagePiece> piece;
    int stage = 0;  // how often it has posted
  };
  struct Row {
    std::size_t number;
    std::vector<Running> pieces = {};
    bool all_started = false;
  };
  static bool move_pieces(Row& row);
  bool start_pieces(Row& row);
  void finish();

  std::shared_ptr<MessageSet> set_;
  std::vector<Fence> ready_;
  std::uint64_t number_;
  std::vector<Row> rows_;  // that have not ended
  std::size_t turn_ = 0;   // of them: to be looked at next
  bool finished_ = false;
};

// From the root along a binomial tree, piece by piece.
class MessageBroadcast final : public MessageOperation {
 public:
  MessageBroadcast(std::shared_ptr<MessageSet> set, std::vector<Fence> ready,
                   std::span<const Slice> slices, Rank root);

 protected:
  std::unique_ptr<MessagePiece> next_piece(std::size_t row) override;

 private:
  class Piece;

  std::size_t root_;
  ByteSequence input_;  // on the root
  ByteSequence output_;
  std::size_t started_ = 0;  // bytes of the pieces before the next one
};

// From every rank straight to every other one, piece by piece: a row for what comes from each rank,
// and one for what goes to all.
class MessageExchange final : public MessageOperation {
 public:
  // GatherSlices or ExchangeSlices.
  template <typename Slices>
  MessageExchange(std::shared_ptr<MessageSet> set, std::vector<Fence> ready, const Slices& slices)
      : MessageOperation(set, std::move(ready), set->size()),
        parcels_(slices, rank(), size()),
        share_(std::max<std::size_t>(1, limits().piece_bytes / size())),
        started_(size()) {
    stats_.packed_bytes = parcels_.bytes();
  }

 protected:
  std::unique_ptr<MessagePiece> next_piece(std::size_t row) override;

 private:
  class ReceivedPiece;
  class SentPiece;

  const Parcels parcels_;
  const std::size_t share_;           // bytes of each that make a piece
  std::vector<std::size_t> started_;  // by row: bytes of each in the pieces before the next one
};

// See MessageCollective. Requires: slices of one dtype, and not Adasum.
class MessageAllReduce final : public MessageOperation {
 public:
  MessageAllReduce(std::shared_ptr<MessageSet> set, std::vector<Fence> ready,
                   std::span<const Slice> slices, const Reduction& reduction);

 protected:
  std::unique_ptr<MessagePiece> next_piece(std::size_t row) override;

 private:
  class Piece;
  class WholePiece;
  class ScatteredPiece;

  std::unique_ptr<ReduceBatch> batch_;
  bool whole_;  // all goes to all ranks
  std::size_t piece_bytes_;
  std::size_t started_ = 0;  // bytes of the pieces before the next one
};

// See MessageCollective. Requires: slices of one dtype whose parts add up.
class MessageReduceScatter final : public MessageOperation {
 public:
  MessageReduceScatter(std::shared_ptr<MessageSet> set, std::vector<Fence> ready,
                       std::span<const ScatterSlice> slices, const Reduction& reduction);

 protected:
  std::unique_ptr<MessagePiece> next_piece(std::size_t row) override;

 private:
  class Piece;

  Reduction reduction_;
  DType dtype_ = DType::kF32;
  std::vector<ByteSequence> inputs_;  // what this rank contributes to the part of each rank
  ByteSequence output_;
  std::size_t longest_ = 0;  // bytes of the longest part
  std::size_t share_;        // bytes of each part that make a piece
  std::size_t started_ = 0;  // bytes of each part in the pieces before the next one
};

}  // namespace hvd::engine::host
