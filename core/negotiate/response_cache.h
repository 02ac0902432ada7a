#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/negotiate/fusion_plan.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {

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

// The slots: small numbers that stand for requests seen before. Equal on all ranks that have
// applied the same log.
class ResponseCache {
 public:
  // The slot of a name.
  std::optional<SlotNumber> find(const std::string& name) const;
  // The same, found at once if the name that was asked for last time was followed by this one the
  // time before: programs submit in the same order again and again.
  std::optional<SlotNumber> find_next(const std::string& name);
  bool defined(SlotNumber slot) const {
    return slot < slots_.size() && slots_[slot].request != nullptr;
  }

  // -- of defined slots
  const Request& request(SlotNumber slot) const { return *slots_[slot].request; }
  const std::shared_ptr<const Request>& shared_request(SlotNumber slot) const {
    return slots_[slot].request;
  }
  bool once(SlotNumber slot) const { return slots_[slot].once; }
  // As fusion_key() and fused_bytes() have them of the request.
  const FusionKey& key(SlotNumber slot) const { return slots_[slot].key; }
  std::size_t bytes(SlotNumber slot) const { return slots_[slot].bytes; }

  // Defines a free slot, or redefines a slot of this name.
  void define(SlotNumber slot, std::shared_ptr<const Request> request, bool once);
  void erase(SlotNumber slot);

  // Slots that have ever been defined are below this.
  std::size_t size() const { return slots_.size(); }

 private:
  static constexpr SlotNumber kNone = static_cast<SlotNumber>(-1);
  struct Slot {
    bool once = false;
    FusionKey key;
    std::size_t bytes = 0;
    std::shared_ptr<const Request> request;  // null = the slot is free
    SlotNumber next = kNone;                 // what find_next() found after this
  };
  std::vector<Slot> slots_;
  std::unordered_map<std::string, SlotNumber> slot_of_;
  SlotNumber last_ = kNone;  // what find_next() found last
};

}  // namespace hvd::engine
