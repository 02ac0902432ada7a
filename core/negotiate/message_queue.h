#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "core/base/bytes.h"
#include "core/negotiate/effects.h"
#include "core/negotiate/fifo.h"
#include "core/negotiate/messages/message.h"

namespace hvd {

// Messages on their way out, in the order in which they were sent.
class MessageQueue {
 public:
  explicit MessageQueue(std::uint32_t epoch) : epoch_(epoch) {}

  std::uint32_t epoch() const { return epoch_; }
  void send(Rank to, MessageKind kind, const auto& body) {
    OutgoingMessage message{to, spares_.take()};
    message.bytes.reserve(last_size_);
    ByteWriter out(message.bytes);
    write(out, MessageHeader{kind, epoch_});
    write(out, body);
    last_size_ = message.bytes.size();
    messages_.push(std::move(message));
  }
  // Without a body.
  void send(Rank to, MessageKind kind) {
    OutgoingMessage message{to, {}};
    ByteWriter out(message.bytes);
    write(out, MessageHeader{kind, epoch_});
    messages_.push(std::move(message));
  }
  // A message that came, as it is.
  void forward(Rank to, std::span<const std::byte> message) {
    OutgoingMessage copy{to, spares_.take()};
    copy.bytes.assign(message.begin(), message.end());
    messages_.push(std::move(copy));
  }
  std::optional<OutgoingMessage> next() { return messages_.pop(); }
  // Keeps its storage.
  void reuse(OutgoingMessage&& sent) { spares_.keep(std::move(sent.bytes)); }

 private:
  const std::uint32_t epoch_;
  Fifo<OutgoingMessage> messages_;
  std::size_t last_size_ = 0;  // bytes of the last message; the next is likely to be as large
  Spares<Bytes> spares_;
};

}  // namespace hvd
