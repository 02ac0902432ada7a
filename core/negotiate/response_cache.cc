#include "core/negotiate/response_cache.h"

namespace hvd {

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
  slots_[slot] = {once, fusion_item(slot, *request), std::move(request), next};
}

void ResponseCache::erase(SlotNumber slot) {
  slot_of_.erase(slots_[slot].request->name);
  slots_[slot] = {};
}

}  // namespace hvd
