#include "test/support/message_network.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvd::engine::test {

class MessageNetwork::Posts final : public host::Messages {
 public:
  Posts(MessageNetwork& network, Rank rank) : network_(network), rank_(rank) {}
  ~Posts() override { Posts::withdraw(); }

  void send(Rank to, const host::MessageKey& key, std::span<const std::byte> data) override {
    const std::lock_guard lock(network_.mutex_);
    add(network_.stream(rank_, to).sends, key, const_cast<std::byte*>(data.data()), data.size());
    posts_.back()->sent = true;
  }
  void receive(Rank from, const host::MessageKey& key, std::span<std::byte> data) override {
    const std::lock_guard lock(network_.mutex_);
    add(network_.stream(from, rank_).receives, key, data.data(), data.size());
  }
  bool arrived() override {
    network_.step();
    const std::lock_guard lock(network_.mutex_);
    std::erase_if(posts_, [this](const PostPtr& each) {
      complete_ = complete_ && each->whole;
      return each->done;
    });
    return posts_.empty();
  }
  bool complete() const noexcept override { return complete_; }
  // It all goes on, from and to memory of its own; what has not begun is sent without its bytes.
  bool withdraw() noexcept override {
    const std::lock_guard lock(network_.mutex_);
    for (const PostPtr& each : std::exchange(posts_, {})) {
      if (each->sent && each->moved == 0) each->bytes = 0;
      each->whole = false;
      each->kept.assign(each->bytes, std::byte{});
      each->data = each->kept.data();
    }
    return true;
  }

 private:
  void add(std::deque<PostPtr>& to, const host::MessageKey& key, std::byte* data,
           std::size_t bytes) {
    posts_.push_back(std::make_shared<Post>(Post{.key = key, .data = data, .bytes = bytes}));
    to.push_back(posts_.back());
    ++network_.changes_;
  }

  MessageNetwork& network_;
  const Rank rank_;
  std::vector<PostPtr> posts_;
  bool complete_ = true;
};

class MessageNetwork::Link final : public host::MessageLink {
 public:
  Link(MessageNetwork& network, Rank rank) : network_(network), rank_(rank) {}

  Rank rank() const noexcept override { return rank_; }
  int size() const noexcept override { return network_.size_; }
  const host::MessageLimits& limits() const noexcept override { return network_.limits_; }
  std::unique_ptr<host::Messages> messages() override {
    return std::make_unique<Posts>(network_, rank_);
  }
  void say(Rank to, Bytes note) override {
    const std::lock_guard lock(network_.mutex_);
    network_.stream(rank_, to).sends.push_back(
        std::make_shared<Post>(Post{.is_note = true, .kept = std::move(note)}));
  }
  std::optional<Message> hear() override {
    network_.step();
    const std::lock_guard lock(network_.mutex_);
    for (Rank from = 0; from < size(); ++from) {
      auto& notes = network_.stream(from, rank_).notes;
      if (notes.empty()) continue;
      Message heard = {from, std::move(notes.front())};
      notes.pop_front();
      return heard;
    }
    return std::nullopt;
  }
  bool flush() override {
    network_.step();
    const std::lock_guard lock(network_.mutex_);
    for (Rank to = 0; to < size(); ++to) {
      const auto& sends = network_.stream(rank_, to).sends;
      if (std::ranges::any_of(sends, [](const PostPtr& each) { return each->is_note; })) {
        return false;
      }
    }
    return true;
  }
  void begin_work() noexcept override {}
  void end_work() noexcept override {}
  std::optional<Duration> poll_interval(bool) const override { return Duration::zero(); }
  bool progress(TimePoint) override { return true; }

 private:
  MessageNetwork& network_;
  const Rank rank_;
};

MessageNetwork::MessageNetwork(int size, host::MessageLimits limits, std::size_t step_bytes,
                               unsigned seed)
    : size_(size),
      limits_(limits),
      step_bytes_(step_bytes),
      random_(seed),
      streams_(static_cast<std::size_t>(size * size)) {}

std::shared_ptr<host::MessageLink> MessageNetwork::link(Rank rank) {
  return std::make_shared<Link>(*this, rank);
}

bool MessageNetwork::step() {
  const std::lock_guard lock(mutex_);
  const std::size_t first = random_() % streams_.size();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (!move(streams_[(first + i) % streams_.size()])) continue;
    ++changes_;
    return true;
  }
  return false;
}

bool MessageNetwork::move(Stream& stream) {
  if (stream.sends.empty()) return false;
  const PostPtr sent = stream.sends.front();
  if (sent->is_note) {
    stream.notes.push_back(std::move(sent->kept));
    stream.sends.pop_front();
    return true;
  }
  const auto meets = [&](const PostPtr& each) { return each->key == sent->key; };
  const auto found = std::ranges::find_if(stream.receives, meets);
  if (found == stream.receives.end()) return false;
  const PostPtr received = *found;
  const std::size_t count =
      std::min({step_bytes_, sent->bytes - sent->moved, received->bytes - received->moved});
  if (count > 0) std::memcpy(received->data + received->moved, sent->data + sent->moved, count);
  sent->moved += count;
  received->moved += count;
  if (sent->moved < sent->bytes && received->moved < received->bytes) return true;
  received->whole = sent->whole && sent->bytes == received->bytes;
  sent->done = received->done = true;
  stream.sends.pop_front();
  stream.receives.erase(found);
  return true;
}

}  // namespace hvd::engine::test
