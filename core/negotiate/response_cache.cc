#include "core/negotiate/response_cache.h"

namespace hvd::engine {

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

std::optional<SlotNumber> ResponseCache::find(const std::string& name) const {
  const auto found = slot_of_.find(name);
  if (found == slot_of_.end()) return std::nullopt;
  return found->second;
}

std::optional<SlotNumber> ResponseCache::find_next(const std::string& name) {
  if (last_ < slots_.size()) {
    const SlotNumber next = slots_[last_].next;
    if (defined(next) && slots_[next].request->name == name) return last_ = next;
  }
  const auto slot = find(name);
  if (!slot) return slot;
  if (last_ < slots_.size()) slots_[last_].next = *slot;
  last_ = *slot;
  return slot;
}

void ResponseCache::define(SlotNumber slot, std::shared_ptr<const Request> request, bool once) {
  if (slot >= slots_.size()) slots_.resize(slot + std::size_t{1});
  slot_of_[request->name] = slot;
  const SlotNumber next = slots_[slot].next;
  slots_[slot] = {once, fusion_key(*request), fused_bytes(*request), std::move(request), next};
}

void ResponseCache::erase(SlotNumber slot) {
  slot_of_.erase(slots_[slot].request->name);
  slots_[slot] = {};
}

}  // namespace hvd::engine
