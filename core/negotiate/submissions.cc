#include "core/negotiate/submissions.h"

namespace hvd {

void Submissions::add(SlotNumber slot, Ticket ticket) {
  if (slot >= by_slot_.size()) by_slot_.resize(slot + std::size_t{1});
  by_slot_[slot] = {true, ticket};
}

void Submissions::add(const Request& request, Ticket ticket) {
  by_name_.insert_or_assign(request.name, InFull{ticket, request});
}

const Submissions::InFull* Submissions::find(const std::string& name) const {
  if (by_name_.empty()) return nullptr;
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

std::optional<Ticket> Submissions::take(SlotNumber slot) {
  if (!has(slot)) return std::nullopt;
  by_slot_[slot].pending = false;
  return by_slot_[slot].ticket;
}

std::optional<Ticket> Submissions::take(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  const Ticket ticket = found->second.ticket;
  by_name_.erase(found);
  return ticket;
}

void Submissions::settle(const std::string& name, SlotNumber slot) {
  if (const auto ticket = take(name)) add(slot, *ticket);
}

void Submissions::unsettle(SlotNumber slot, const Request& request) {
  if (const auto ticket = take(slot)) add(request, *ticket);
}

}  // namespace hvd
