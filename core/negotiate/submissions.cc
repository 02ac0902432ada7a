#include "core/negotiate/submissions.h"

#include <utility>

namespace hvd::engine {

void Submissions::begin(ProcessSetId set) {
  if (set >= pending_in_.size()) pending_in_.resize(set + std::size_t{1});
  ++pending_in_[set];
  ++pending_;
}

void Submissions::end(ProcessSetId set) {
  --pending_in_[set];
  --pending_;
}

Submissions::BySlot& Submissions::place(SlotNumber slot) {
  if (slot >= by_slot_.size()) by_slot_.resize(slot + std::size_t{1});
  return by_slot_[slot];
}

void Submissions::add(SlotNumber slot, const Request& request, Ticket ticket) {
  BySlot& mine = place(slot);
  mine.pending = true;
  mine.set = request.set;
  mine.ticket = ticket;
  mine.number = ++count_;
  last_ = request.name;
  begin(request.set);
}

void Submissions::add(const Request& request, Ticket ticket) {
  by_name_.insert_or_assign(request.name, InFull{ticket, ++count_, request});
  last_ = request.name;
  begin(request.set);
  if (request.kind == CollectiveKind::kRemoveSet) removals_.push_back(removed_set(request));
}

void Submissions::erase(std::unordered_map<std::string, InFull>::iterator found) {
  const Request& request = found->second.request;
  if (request.kind == CollectiveKind::kRemoveSet) std::erase(removals_, removed_set(request));
  by_name_.erase(found);
}

const Submissions::InFull* Submissions::find(const std::string& name) const {
  if (by_name_.empty()) return nullptr;
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

std::optional<Ticket> Submissions::take(SlotNumber slot) {
  if (!has(slot)) return std::nullopt;
  by_slot_[slot].pending = false;
  end(by_slot_[slot].set);
  return by_slot_[slot].ticket;
}

std::optional<Ticket> Submissions::take(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  const Ticket ticket = found->second.ticket;
  end(found->second.request.set);
  erase(found);
  return ticket;
}

void Submissions::bind_slot(const std::string& name, SlotNumber slot) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  InFull& mine = found->second;
  place(slot) = {true, mine.request.set, mine.ticket, mine.number, std::move(mine.request.place)};
  erase(found);
}

bool Submissions::stands_for(SlotNumber slot, const Request& request,
                             const Request& submitted) const {
  if (submitted.flagged || !agree(request, submitted)) return false;
  if (request.place == submitted.place) return true;
  return request.place.arena == 0 && slot < by_slot_.size() &&
         by_slot_[slot].told == submitted.place;
}

void Submissions::keep(SlotNumber slot, const Request& request) {
  if (request.place.arena != 0) by_slot_[slot].told = request.place;
}

void Submissions::unbind_slot(SlotNumber slot, const Request& request) {
  if (!has(slot)) return;
  const BySlot& mine = by_slot_[slot];
  by_name_.insert_or_assign(request.name, InFull{mine.ticket, mine.number, request});
  by_slot_[slot].pending = false;
}

void Submissions::join(const Request& request, Ticket ticket) {
  joins_[request.set] = {ticket, request.joins_average, false};
  last_ = request.name;
  unannounced_ = true;
}

std::vector<Joining> Submissions::take_joins(Rank rank) {
  std::vector<Joining> ready;
  if (!unannounced_) return ready;
  unannounced_ = false;
  for (auto& [set, join] : joins_) {
    if (join.announced) continue;
    join.announced = pending_in(set) == 0;
    if (join.announced) {
      ready.push_back({set, rank, join.joins_average});
    } else {
      unannounced_ = true;
    }
  }
  return ready;
}

Ticket Submissions::end_join(ProcessSetId set) {
  const auto found = joins_.find(set);
  const Ticket ticket = found->second.ticket;
  joins_.erase(found);
  return ticket;
}

Submissions::Pending Submissions::longest_pending(const ResponseCache& cache) const {
  Pending longest{.name = {}, .number = count_ + 1};
  for (SlotNumber slot = 0; slot < by_slot_.size(); ++slot) {
    if (!by_slot_[slot].pending || by_slot_[slot].number >= longest.number) continue;
    longest = {cache.request(slot).name, by_slot_[slot].number};
  }
  for (const auto& [pending, mine] : by_name_) {
    if (mine.number < longest.number) longest = {pending, mine.number};
  }
  return longest.name.empty() ? Pending{} : longest;
}

RankStatus Submissions::status(const ResponseCache& cache) const {
  Pending longest = longest_pending(cache);
  RankStatus status;
  status.submissions = count_;
  status.last_submitted = last_;
  status.pending = pending_;
  status.waits_for = std::move(longest.name);
  status.waits_number = longest.number;
  for (const auto& [set, join] : joins_) status.joins.push_back(set);
  return status;
}

}  // namespace hvd::engine
