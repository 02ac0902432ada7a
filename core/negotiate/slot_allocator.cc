#include "core/negotiate/slot_allocator.h"

namespace hvd {

SlotNumber SlotAllocator::take() {
  if (free_.empty()) {
    entries_.emplace_back();
    return static_cast<SlotNumber>(entries_.size() - 1);
  }
  const SlotNumber slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotAllocator::keep(SlotNumber slot) {
  entries_[slot].kept = true;
  ++kept_;
}

void SlotAllocator::free(SlotNumber slot) {
  unlink(slot);
  if (entries_[slot].kept) --kept_;
  entries_[slot] = {};
  free_.push_back(slot);
}

void SlotAllocator::set_busy(SlotNumber slot) {
  unlink(slot);
}

void SlotAllocator::ran(SlotNumber slot) {
  unlink(slot);
  link(slot);
}

std::optional<SlotNumber> SlotAllocator::least_recent() const {
  if (first_ == kNone) return std::nullopt;
  return first_;
}

void SlotAllocator::link(SlotNumber slot) {
  Entry& entry = entries_[slot];
  entry.linked = true;
  entry.before = last_;
  entry.after = kNone;
  (last_ == kNone ? first_ : entries_[last_].after) = slot;
  last_ = slot;
}

void SlotAllocator::unlink(SlotNumber slot) {
  Entry& entry = entries_[slot];
  if (!entry.linked) return;
  entry.linked = false;
  (entry.before == kNone ? first_ : entries_[entry.before].after) = entry.after;
  (entry.after == kNone ? last_ : entries_[entry.after].before) = entry.before;
}

}  // namespace hvd
