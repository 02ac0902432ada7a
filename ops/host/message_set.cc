#include "ops/host/message_set.h"

#include <algorithm>
#include <bit>

#include "core/base/status.h"
#include "ops/host/host_memory.h"
#include "ops/host/reduce_batch.h"

namespace hvd::engine::host {
namespace {

constexpr std::size_t kLeast = 4096;                   // bytes of a buffer
constexpr std::size_t kKept = std::size_t{256} << 20;  // bytes that wait for the next operation

class MessageTransferData final : public TransferData {
 public:
  explicit MessageTransferData(MessageLink& link) : messages(link.messages()) {}
  bool done() override { return messages->arrived(); }
  bool arrived() const override { return messages->complete(); }
  // Messages find their receives in order: what is withdrawn goes on, from and to memory that has
  // to be kept.
  bool withdraw(bool for_good) noexcept override {
    if (for_good) return messages->withdraw();
    try {
      return messages->arrived();
    } catch (const Error&) {
      return messages->withdraw();  // nothing follows on a broken link
    }
  }

  std::unique_ptr<Messages> messages;
};

// Data goes piece by piece, like that of operations: no message is longer than theirs.
class MessageTransferLink final : public TransferLink {
 public:
  explicit MessageTransferLink(MessageLink& link) : link_(link), skips_(link.messages()) {}

  void say(Rank to, Bytes note) override { link_.say(to, std::move(note)); }
  std::optional<Message> hear() override { return link_.hear(); }
  void flush() override { link_.flush(); }
  bool said(Rank) override { return link_.flush(); }
  bool idle() override { return skips_->arrived() && link_.flush(); }
  std::unique_ptr<TransferData> send(Rank to, const std::byte* data, std::size_t bytes) override {
    auto sending = std::make_unique<MessageTransferData>(link_);
    for_each_piece(bytes, [&](std::size_t first, std::size_t count) {
      sending->messages->send(to, kTransferKey, {data + first, count});
    });
    return sending;
  }
  std::unique_ptr<TransferData> receive(Rank from, std::byte* data, std::size_t bytes) override {
    auto receiving = std::make_unique<MessageTransferData>(link_);
    for_each_piece(bytes, [&](std::size_t first, std::size_t count) {
      receiving->messages->receive(from, kTransferKey, {data + first, count});
    });
    return receiving;
  }
  // Empty messages, which a receive() tells from its own.
  void skip(Rank to, std::size_t bytes) override {
    for_each_piece(bytes, [&](std::size_t, std::size_t) { skips_->send(to, kTransferKey, {}); });
  }

 private:
  void for_each_piece(std::size_t bytes, const auto& visit) const {
    const std::size_t most = link_.limits().piece_bytes;
    for (std::size_t first = 0; first < bytes; first += most) {
      visit(first, std::min(most, bytes - first));
    }
  }

  MessageLink& link_;
  std::unique_ptr<Messages> skips_;
};

}  // namespace

MessageShared::MessageShared(std::shared_ptr<MessageLink> the_link)
    : link(std::move(the_link)), transfers(std::make_unique<MessageTransferLink>(*link)) {
  if (link->limits().piece_bytes >= ReduceBatch::kLongestUnit) return;
  throw InvalidArgumentError("pieces of ", link->limits().piece_bytes, " bytes: expected at least ",
                             ReduceBatch::kLongestUnit);
}

MessageSet::MessageSet(std::shared_ptr<MessageShared> shared)
    : RankSet(shared->link->rank(), shared->link->size()), shared_(std::move(shared)) {
  shared_->link->open_set(key());
}

MessageSet::MessageSet(const std::shared_ptr<const MessageSet>& parent, std::uint32_t number,
                       std::vector<Rank> ranks)
    : RankSet(parent, number, parent->shared_->link->rank(), std::move(ranks)),
      shared_(parent->shared_) {
  shared_->link->open_set(key());
}

Buffer ScratchPool::take(std::size_t bytes) {
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kLeast));
  const auto fits = [&](const Buffer& each) { return each.bytes == rounded; };
  const auto found = std::find_if(free_.rbegin(), free_.rend(), fits);  // the warmest first
  if (found == free_.rend()) return allocate_buffer(rounded);
  Buffer buffer = std::move(*found);
  free_.erase(std::prev(found.base()));
  free_bytes_ -= rounded;
  return buffer;
}

void ScratchPool::give_back(Buffer buffer) {
  if (free_bytes_ + buffer.bytes > kKept) return;
  free_bytes_ += buffer.bytes;
  free_.push_back(std::move(buffer));
}

}  // namespace hvd::engine::host
