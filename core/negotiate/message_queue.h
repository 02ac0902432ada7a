#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/negotiate/effects.h"
#include "core/negotiate/messages/message.h"

namespace hvd::engine {

// First in, first out. Keeps its storage, so that a steady flow allocates nothing.
template <typename T>
class Fifo {
 public:
  template <typename U>
  void push(U&& value) {
    items_.emplace_back(std::forward<U>(value));
  }
  std::optional<T> pop() {
    if (head_ == items_.size()) return std::nullopt;
    std::optional<T> value(std::move(items_[head_++]));
    if (head_ == items_.size()) {
      items_.clear();
      head_ = 0;
    }
    return value;
  }
  bool empty() const { return head_ == items_.size(); }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
};

// Emptied containers whose storage serves again.
template <typename Storage>
class Spares {
 public:
  Storage take() {
    if (items_.empty()) return {};
    Storage storage = std::move(items_.back());
    items_.pop_back();
    return storage;
  }
  void keep(Storage&& storage) {
    if (items_.size() == kMost) return;
    storage.clear();
    items_.push_back(std::move(storage));
  }

 private:
  static constexpr std::size_t kMost = 64;
  std::vector<Storage> items_;
};

// Messages on their way out, in the order in which they were sent.
class MessageQueue {
 public:
  explicit MessageQueue(std::uint32_t epoch) : epoch_(epoch) {}

  std::uint32_t epoch() const { return epoch_; }
  void send(Rank to, MessageKind kind, const auto& body) {
    send_all(std::span(&to, 1), kind, body);
  }
  void send_all(std::span<const Rank> to, MessageKind kind, const auto& body) {
    if (to.empty()) return;
    OutgoingMessage message{to.back(), spares_.take()};
    message.bytes.reserve(last_size_);
    ByteWriter out(message.bytes);
    serialize(out, MessageHeader{kind, epoch_});
    serialize(out, body);
    last_size_ = message.bytes.size();
    for (const Rank other : to.first(to.size() - 1)) forward(other, message.bytes);
    messages_.push(std::move(message));
  }
  // Without a body.
  void send(Rank to, MessageKind kind) {
    OutgoingMessage message{to, {}};
    ByteWriter out(message.bytes);
    serialize(out, MessageHeader{kind, epoch_});
    messages_.push(std::move(message));
  }
  // A message that came, as it is.
  void forward(Rank to, std::span<const std::byte> message) {
    OutgoingMessage copy{to, spares_.take()};
    copy.bytes.assign(message.begin(), message.end());
    messages_.push(std::move(copy));
  }
  bool empty() const { return messages_.empty(); }
  std::optional<OutgoingMessage> next() { return messages_.pop(); }
  // Keeps its storage.
  void reuse(OutgoingMessage&& sent) { spares_.keep(std::move(sent.bytes)); }

 private:
  const std::uint32_t epoch_;
  Fifo<OutgoingMessage> messages_;
  std::size_t last_size_ = 0;  // bytes of the last message; the next is likely to be as large
  Spares<Bytes> spares_;
};

}  // namespace hvd::engine
