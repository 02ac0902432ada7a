#include "core/negotiate/response_cache.h"

namespace hvd {

std::optional<SlotNumber> ResponseCache::find(const std::string& name) const {
  const auto found = slot_of_.find(name);
  if (found == slot_of_.end()) return std::nullopt;
  return found->second;
}

void ResponseCache::define(SlotNumber slot, const Request& request, bool once) {
  if (slot >= slots_.size()) slots_.resize(slot + std::size_t{1});
  slots_[slot] = {true, once, {slot, fusion_key(request), request.bytes()}, request};
  slot_of_[request.name] = slot;
}

void ResponseCache::erase(SlotNumber slot) {
  slot_of_.erase(slots_[slot].request.name);
  slots_[slot] = {};
}

}  // namespace hvd
