#include "core/negotiate/response_cache.h"

namespace hvd {

std::optional<SlotNumber> ResponseCache::find(const std::string& name) const {
  const auto found = slot_of_.find(name);
  if (found == slot_of_.end()) return std::nullopt;
  return found->second;
}

void ResponseCache::define(SlotNumber slot, std::shared_ptr<const Request> request, bool once) {
  if (slot >= slots_.size()) slots_.resize(slot + std::size_t{1});
  slot_of_[request->name] = slot;
  slots_[slot] = {once, fusion_item(slot, *request), std::move(request)};
}

void ResponseCache::erase(SlotNumber slot) {
  slot_of_.erase(slots_[slot].request->name);
  slots_[slot] = {};
}

}  // namespace hvd
