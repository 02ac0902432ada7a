#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/ports/collective.h"
#include "ops/host/host_collective.h"
#include "ops/host/message_link.h"
#include "ops/host/transfers.h"

namespace hvd::engine::host {

// Memory that operations borrow one after the other: fresh pages cost more than what is done with
// them. Not thread-safe.
class ScratchPool {
 public:
  // At least `bytes`, 64-byte aligned, holding anything.
  Buffer take(std::size_t bytes);
  void give_back(Buffer buffer);

 private:
  std::vector<Buffer> free_;
  std::size_t free_bytes_ = 0;
};

// What one piece of an operation borrowed. Gives it back when it is destroyed.
class Scratch {
 public:
  explicit Scratch(ScratchPool& pool) : pool_(pool) {}
  ~Scratch() {
    for (Buffer& buffer : taken_) pool_.give_back(std::move(buffer));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* take(std::size_t bytes) {
    taken_.push_back(pool_.take(bytes));
    return static_cast<std::byte*>(taken_.back().data);
  }

 private:
  ScratchPool& pool_;
  std::vector<Buffer> taken_;
};

// What the Collectives over one link share.
struct MessageShared {
  // Throws InvalidArgumentError if the link's pieces are too short for what travels in blocks.
  explicit MessageShared(std::shared_ptr<MessageLink> the_link);

  std::shared_ptr<MessageLink> link;
  ScratchPool pool;
  Transfers transfers;
};

// The ranks of one Collective and its running operations.
class MessageSet : public RankSet {
 public:
  // All ranks of the link.
  explicit MessageSet(std::shared_ptr<MessageShared> shared);
  // `ranks`: of the link, ascending; this one is among them. Throws UnsupportedError when the link
  // cannot tell it from the sets that exist.
  MessageSet(const std::shared_ptr<const MessageSet>& parent, std::uint32_t number,
             std::vector<Rank> ranks);
  ~MessageSet() { shared_->link->close_set(key()); }

  MessageShared& shared() const noexcept { return *shared_; }

  void begin_transfer() noexcept { shared_->link->begin_work(); }
  void end_transfer() noexcept { shared_->link->end_work(); }

  // Operations are counted from their start to their end, on all ranks alike.
  std::uint64_t begin_operation() { return running_.emplace_back(next_operation_++); }
  void end_operation(std::uint64_t number) { std::erase(running_, number); }
  // False while the link could take its messages for those of an earlier one.
  bool may_post(std::uint64_t number) const {
    return number - running_.front() < shared_->link->limits().operations;
  }

 private:
  const std::shared_ptr<MessageShared> shared_;
  std::uint64_t next_operation_ = 0;
  std::deque<std::uint64_t> running_;  // ascending
};

}  // namespace hvd::engine::host
