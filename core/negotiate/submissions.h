#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/negotiate/announcement.h"
#include "core/negotiate/rank_protocol.h"
#include "core/negotiate/request.h"

namespace hvd {

// What this rank has submitted and has not run yet. A submission that is what its name's slot says
// is kept by slot; any other by name, with its request.
class Submissions {
 public:
  struct InFull {
    Ticket ticket = 0;
    Request request;
  };

  void add(SlotNumber slot, Ticket ticket);
  void add(const Request& request, Ticket ticket);

  bool has(SlotNumber slot) const { return slot < by_slot_.size() && by_slot_[slot].pending; }
  // Null when `name` is not pending by name.
  const InFull* find(const std::string& name) const;

  std::optional<Ticket> take(SlotNumber slot);
  std::optional<Ticket> take(const std::string& name);
  // The name has a slot now that says what was submitted.
  void settle(const std::string& name, SlotNumber slot);
  // The slot goes: from now on its submission is kept by name.
  void unsettle(SlotNumber slot, const Request& request);

 private:
  struct BySlot {
    bool pending = false;
    Ticket ticket = 0;
  };
  std::vector<BySlot> by_slot_;
  std::unordered_map<std::string, InFull> by_name_;
};

}  // namespace hvd
