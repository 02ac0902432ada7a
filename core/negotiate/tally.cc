#include "core/negotiate/tally.h"

#include <algorithm>

namespace hvd {

Tally::Tally(const Tree& tree, const ResponseCache& cache)
    : tree_(tree),
      cache_(cache),
      reporters_(tree.children.size() + 1),
      child_applied_(tree.children.size(), 0) {}

int Tally::weight(Reporter from) const {
  return from == kSelf ? 1 : static_cast<int>(tree_.below[from - 1].size());
}

Rank Tally::lowest(Reporter from) const {
  return from == kSelf ? tree_.rank : tree_.below[from - 1].front();
}

bool Tally::has(const Count& count, Reporter from) const {
  return !count.bits.empty() && ((count.bits[from / 64] >> (from % 64)) & 1) != 0;
}

void Tally::open(Count& count) {
  if (count.round != 0) return;
  count.round = ++rounds_;
  ++waiting_;
}

bool Tally::arrive(Count& count, Reporter from) {
  if (has(count, from)) return false;
  if (count.bits.empty()) count.bits.resize(reporters_ / 64 + 1);
  count.bits[from / 64] |= std::uint64_t{1} << (from % 64);
  ++count.arrived;
  open(count);
  return true;
}

void Tally::reset(Count& count) {
  if (count.round != 0) --waiting_;
  count.arrived = 0;
  count.round = 0;
  count.in_full = false;
  count.variants.clear();
  std::fill(count.bits.begin(), count.bits.end(), 0);
}

// Those who announced the slot so far announced what the slot says.
void Tally::count_in_full(Count& count, const Request& request) {
  count.in_full = true;
  for (Reporter r = 0; r < reporters_; ++r) {
    if (has(count, r)) merge(count.variants, {request, lowest(r), weight(r)});
  }
}

Tally::Count& Tally::count_of(SlotNumber slot) {
  if (slot >= slots_.size()) slots_.resize(slot + std::size_t{1});
  return slots_[slot];
}

void Tally::add(SlotNumber slot, Reporter from, std::uint64_t applied, Announcement& complete) {
  if (is_void(slot, applied)) return;
  Count& count = count_of(slot);
  if (!arrive(count, from)) return;
  if (count.in_full) merge(count.variants, {cache_.request(slot), lowest(from), weight(from)});
  if (count.arrived < reporters_) return;
  if (count.in_full) {
    complete.names.push_back(std::move(count.variants));
  } else {
    complete.slots.push_back(slot);
  }
  reset(count);
  if (!absences_.empty()) absences_.erase(cache_.request(slot).name);
}

void Tally::add(const Variants& variants, Reporter from, std::uint64_t applied,
                Announcement& complete) {
  const std::string& name = variants.front().request.name;
  if (is_void(name, applied)) return;
  const std::optional<SlotNumber> slot = cache_.find(name);
  Count& count = slot ? count_of(*slot) : names_[name];
  if (has(count, from)) return;
  if (slot && !count.in_full) count_in_full(count, cache_.request(*slot));
  count.in_full = true;
  arrive(count, from);
  for (const Variant& variant : variants) merge(count.variants, variant);
  if (count.arrived < reporters_) return;
  complete.names.push_back(std::move(count.variants));
  reset(count);
  if (!slot) names_.erase(name);
  absences_.erase(complete.names.back().front().request.name);
}

void Tally::add(const Absence& absence, Reporter from) {
  const std::optional<SlotNumber> slot = cache_.find(absence.name);
  open(slot ? count_of(*slot) : names_[absence.name]);
  absences_[absence.name][from] = absence;
}

bool Tally::is_void(SlotNumber slot, std::uint64_t applied) const {
  return slot < slot_cleared_.size() && applied < slot_cleared_[slot];
}

bool Tally::is_void(const std::string& name, std::uint64_t applied) const {
  const auto cleared = name_cleared_.find(name);
  return cleared != name_cleared_.end() && applied < cleared->second;
}

void Tally::clear(const std::string& name, std::uint64_t number) {
  absences_.erase(name);
  if (const auto slot = cache_.find(name)) {
    reset(count_of(*slot));
    if (*slot >= slot_cleared_.size()) slot_cleared_.resize(*slot + std::size_t{1});
    slot_cleared_[*slot] = number;
  } else if (const auto found = names_.find(name); found != names_.end()) {
    reset(found->second);
    names_.erase(found);
  }
  if (tree_.children.empty()) return;
  name_cleared_[name] = number;
  if (name_cleared_.size() >= forget_at_) forget_old_clears();
}

void Tally::child_applied(Reporter from, std::uint64_t applied) {
  child_applied_[from - 1] = applied;
}

void Tally::forget_old_clears() {
  const auto least = *std::min_element(child_applied_.begin(), child_applied_.end());
  std::erase_if(name_cleared_, [&](const auto& entry) { return entry.second <= least; });
  forget_at_ = std::max<std::size_t>(64, 2 * name_cleared_.size());
}

const Tally::Count* Tally::find(const std::string& name) const {
  if (const auto slot = cache_.find(name)) {
    return *slot < slots_.size() ? &slots_[*slot] : nullptr;
  }
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

std::vector<Waiting> Tally::waiting() const {
  std::vector<Waiting> all;
  const auto add = [&](const std::string& name, const Count& count) {
    all.push_back({name, count.round, held_below(name)});
  };
  for (SlotNumber slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].round != 0) add(cache_.request(slot).name, slots_[slot]);
  }
  for (const auto& [name, count] : names_) add(name, count);
  return all;
}

std::vector<Rank> Tally::missing(const std::string& name) const {
  std::vector<Rank> ranks;
  const Count* count = find(name);
  if (count == nullptr) return ranks;
  const auto told = absences_.find(name);
  for (Reporter r = 0; r < reporters_; ++r) {
    if (has(*count, r)) continue;
    if (r == kSelf) {
      ranks.push_back(tree_.rank);
      continue;
    }
    const std::vector<Rank>* below = &tree_.below[r - 1];
    if (told != absences_.end()) {
      const auto detail = told->second.find(r);
      if (detail != told->second.end()) below = &detail->second.missing;
    }
    ranks.insert(ranks.end(), below->begin(), below->end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Duration Tally::held_below(const std::string& name) const {
  Duration held = Duration::zero();
  const auto told = absences_.find(name);
  if (told == absences_.end()) return held;
  for (const auto& [from, absence] : told->second) held = std::max(held, absence.held);
  return held;
}

}  // namespace hvd
