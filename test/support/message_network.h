#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "ops/host/message_link.h"

namespace hvd::engine::test {

// N ranks in one process whose links are as strict as the port allows: what a rank sends to another
// arrives in the order in which it was sent, notes and transfers too, and nothing of it that the
// other has not posted a receive for: what stands behind that waits as well. Moves when its links
// are called or step() is. Thread-safe.
class MessageNetwork {
 public:
  // At most `step_bytes` move at a time, between two ranks drawn from `seed`.
  MessageNetwork(int size, host::MessageLimits limits, std::size_t step_bytes, unsigned seed);

  std::shared_ptr<host::MessageLink> link(Rank rank);
  // Moves something; false if nothing can be moved.
  bool step();
  // Grows whenever something is sent, received or moved.
  std::uint64_t changes() const { return changes_; }

 private:
  class Link;
  class Posts;
  // A message that was sent, a receive that was posted, or a note.
  struct Post {
    host::MessageKey key = {};
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::size_t moved = 0;
    bool is_note = false;
    bool sent = false;
    bool done = false;
    bool whole = true;  // not withdrawn, and as long as expected
    Bytes kept = {};    // of a note, or of what was withdrawn
  };
  using PostPtr = std::shared_ptr<Post>;
  struct Stream {
    std::deque<PostPtr> sends;
    std::deque<PostPtr> receives;
    std::deque<Bytes> notes;  // that have arrived
  };

  Stream& stream(Rank from, Rank to) {
    return streams_[static_cast<std::size_t>(from * size_ + to)];
  }
  bool move(Stream& stream);

  const int size_;
  const host::MessageLimits limits_;
  const std::size_t step_bytes_;
  std::mutex mutex_;
  std::mt19937 random_;
  std::vector<Stream> streams_;
  std::uint64_t changes_ = 0;
};

}  // namespace hvd::engine::test
