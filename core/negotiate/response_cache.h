#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/negotiate/fusion_plan.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/messages/request.h"

namespace hvd {

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
  // How the slot is placed in a batch; its id is the slot.
  const FusionItem& item(SlotNumber slot) const { return slots_[slot].item; }

  // Defines a free slot, or defines a slot of this name anew.
  void define(SlotNumber slot, std::shared_ptr<const Request> request, bool once);
  void erase(SlotNumber slot);

  // Slots that have ever been defined are below this.
  std::size_t size() const { return slots_.size(); }

 private:
  static constexpr SlotNumber kNone = static_cast<SlotNumber>(-1);
  struct Slot {
    bool once = false;
    FusionItem item;
    std::shared_ptr<const Request> request;  // null = the slot is free
    SlotNumber next = kNone;                 // what find_next() found after this
  };
  std::vector<Slot> slots_;
  std::unordered_map<std::string, SlotNumber> slot_of_;
  SlotNumber last_ = kNone;  // what find_next() found last
};

}  // namespace hvd
