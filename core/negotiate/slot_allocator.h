#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/negotiate/messages/announcement.h"

namespace hvd {

// Rank 0's book of slot numbers: which are free, which ran least recently, which may not go.
class SlotAllocator {
 public:
  // At most `capacity` slots outlive their run.
  explicit SlotAllocator(std::size_t capacity) : capacity_(capacity) {}

  // What is kept beyond it goes when room is needed.
  void set_capacity(std::size_t capacity) { capacity_ = capacity; }

  bool full() const { return kept_ >= capacity_; }
  // A free number; it belongs to no list yet.
  SlotNumber take();
  // `slot` is kept: it may become the least recently run.
  void keep(SlotNumber slot);
  // Gives a number back, kept or not.
  void free(SlotNumber slot);

  // A slot that waits to run is busy, until it ran, and is never given up.
  void set_busy(SlotNumber slot);
  void ran(SlotNumber slot);
  // The least recently run slot that is not busy.
  std::optional<SlotNumber> least_recent() const;

 private:
  // A doubly linked list through `entries_`, least recent first; busy slots are not in it.
  static constexpr SlotNumber kNone = static_cast<SlotNumber>(-1);
  struct Entry {
    bool kept = false;
    bool linked = false;
    SlotNumber before = kNone;
    SlotNumber after = kNone;
  };
  void link(SlotNumber slot);
  void unlink(SlotNumber slot);

  std::size_t capacity_;
  std::size_t kept_ = 0;
  std::vector<Entry> entries_;
  std::vector<SlotNumber> free_;
  SlotNumber first_ = kNone;
  SlotNumber last_ = kNone;
};

}  // namespace hvd
