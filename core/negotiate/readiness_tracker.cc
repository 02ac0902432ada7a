#include "core/negotiate/readiness_tracker.h"

#include <algorithm>
#include <iterator>

namespace hvd::engine {

ReadinessTracker::ReadinessTracker(const Tree& tree, const ResponseCache& cache,
                                   const ProcessSets& sets)
    : tree_(tree),
      cache_(cache),
      sets_(sets),
      self_({tree.rank}),
      reporters_(tree.children.size() + 1),
      child_applied_(tree.children.size(), 0) {
  Announcement none;
  recount(kWorldSet, 0, none);
}

const std::vector<Rank>& ReadinessTracker::below(Reporter from) const {
  return from == kSelf ? self_ : tree_.below[from - 1];
}

bool ReadinessTracker::has(const Count& count, Reporter from) const {
  return !count.bits.empty() && ((count.bits[from / 64] >> (from % 64)) & 1) != 0;
}

void ReadinessTracker::open(Count& count, ProcessSetId set) {
  if (count.round != 0) return;
  count.round = ++rounds_;
  count.set = set;
  ++waiting_;
}

bool ReadinessTracker::arrive(Count& count, Reporter from, ProcessSetId set) {
  if (has(count, from)) return false;
  if (count.bits.empty()) count.bits.resize(reporters_ / 64 + 1);
  count.bits[from / 64] |= std::uint64_t{1} << (from % 64);
  ++count.arrived;
  open(count, set);
  return true;
}

void ReadinessTracker::reset(Count& count) {
  if (count.round != 0) --waiting_;
  count.arrived = 0;
  count.round = 0;
  count.in_full = false;
  count.variants.clear();
  count.eager.clear();
  std::fill(count.bits.begin(), count.bits.end(), 0);
}

// Those who announced the slot so far announced what the slot says.
void ReadinessTracker::count_in_full(Count& count, const Request& request) {
  count.in_full = true;
  const Expected& expected = expected_[request.set];
  for (Reporter r = 0; r < reporters_; ++r) {
    if (has(count, r)) merge(count.variants, {request, expected.lowest[r], expected.weight[r]});
  }
}

ReadinessTracker::Count& ReadinessTracker::count_of(SlotNumber slot) {
  if (slot >= slots_.size()) slots_.resize(slot + std::size_t{1});
  return slots_[slot];
}

std::optional<ReadinessTracker::Reporter> ReadinessTracker::reporter_of(Rank child) const {
  const auto found = std::lower_bound(tree_.children.begin(), tree_.children.end(), child);
  if (found == tree_.children.end() || *found != child) return std::nullopt;
  return static_cast<Reporter>(found - tree_.children.begin()) + 1;
}

void ReadinessTracker::add(SlotNumber slot, Reporter from, std::uint64_t applied,
                           Announcement& complete) {
  if (is_void(slot, applied)) return;
  Count& count = count_of(slot);
  const Request& request = cache_.request(slot);
  if (!arrive(count, from, request.set)) return;
  if (count.in_full) {
    const Expected& expected = expected_[request.set];
    merge(count.variants, {request, expected.lowest[from], expected.weight[from]});
  }
  if (is_complete(count)) complete_slot(slot, complete);
}

void ReadinessTracker::add(EagerValues&& eager, std::uint64_t applied) {
  if (is_void(eager.slot, applied)) return;
  std::vector<EagerValues>& all = count_of(eager.slot).eager;  // ascending ranks
  auto place = all.end();
  while (place != all.begin() && std::prev(place)->rank >= eager.rank) --place;
  if (place != all.end() && place->rank == eager.rank) {
    *place = std::move(eager);
  } else {
    all.insert(place, std::move(eager));
  }
}

void ReadinessTracker::add(const Variants& variants, Reporter from, std::uint64_t applied,
                           Announcement& complete) {
  const Request& request = variants.front().request;
  if (is_void(request.name, applied)) return;
  const std::optional<SlotNumber> slot = cache_.find(request.name);
  Count& count = slot ? count_of(*slot) : names_[request.name];
  if (has(count, from)) return;
  if (slot && !count.in_full) count_in_full(count, cache_.request(*slot));
  count.in_full = true;
  arrive(count, from, request.set);
  for (const Variant& variant : variants) merge(count.variants, variant);
  if (!is_complete(count)) return;
  complete_in_full(count, complete);
  if (!slot) names_.erase(complete.names.back().front().request.name);
}

void ReadinessTracker::complete_slot(SlotNumber slot, Announcement& complete) {
  Count& count = slots_[slot];
  if (count.in_full) return complete_in_full(count, complete);
  complete.slots.push_back(slot);
  std::move(count.eager.begin(), count.eager.end(), std::back_inserter(complete.eager));
  reset(count);
  if (!absences_.empty()) absences_.erase(cache_.request(slot).name);
}

void ReadinessTracker::complete_in_full(Count& count, Announcement& complete) {
  complete.names.push_back(std::move(count.variants));
  reset(count);
  absences_.erase(complete.names.back().front().request.name);
}

bool ReadinessTracker::add(const MissingRanks& absence, Reporter from, std::uint64_t applied) {
  // By now no rank is waited for below this child, or the child knew less than this node did when
  // the name became complete here.
  if (weight(from, absence.set) == 0 || applied < expected_[absence.set].since) return false;
  if (is_void(absence.name, applied)) return false;
  const std::optional<SlotNumber> slot = cache_.find(absence.name);
  open(slot ? count_of(*slot) : names_[absence.name], absence.set);
  absences_[absence.name][from] = absence;
  return true;
}

void ReadinessTracker::recount(ProcessSetId set, std::uint64_t number, Announcement& complete) {
  if (set >= expected_.size()) expected_.resize(set + std::size_t{1});
  Expected& expected = expected_[set];
  expected = {std::vector<int>(reporters_), std::vector<Rank>(reporters_), 0, number};
  for (Reporter r = 0; r < reporters_; ++r) {
    for (const Rank rank : below(r)) {
      if (!sets_.known(set) || !sets_.expects(set, rank)) continue;
      if (expected.weight[r]++ == 0) expected.lowest[r] = rank;
    }
    if (expected.weight[r] > 0) ++expected.reporters;
  }
  const auto waited = [&](const Count& count) {
    return count.round != 0 && count.set == set && count.arrived > 0 && is_complete(count);
  };
  for (SlotNumber slot = 0; slot < slots_.size(); ++slot) {
    if (waited(slots_[slot])) complete_slot(slot, complete);
  }
  for (auto name = names_.begin(); name != names_.end();) {
    const bool done = waited(name->second);
    if (done) complete_in_full(name->second, complete);
    name = done ? names_.erase(name) : std::next(name);
  }
}

bool ReadinessTracker::is_void(SlotNumber slot, std::uint64_t applied) const {
  return slot < slot_cleared_.size() && applied < slot_cleared_[slot];
}

bool ReadinessTracker::is_void(const std::string& name, std::uint64_t applied) const {
  const auto cleared = name_cleared_.find(name);
  return cleared != name_cleared_.end() && applied < cleared->second;
}

void ReadinessTracker::clear(const std::string& name, std::uint64_t number) {
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

void ReadinessTracker::child_applied(Reporter from, std::uint64_t applied) {
  child_applied_[from - 1] = applied;
}

void ReadinessTracker::forget_old_clears() {
  const auto least = *std::min_element(child_applied_.begin(), child_applied_.end());
  std::erase_if(name_cleared_, [&](const auto& entry) { return entry.second <= least; });
  forget_at_ = std::max<std::size_t>(64, 2 * name_cleared_.size());
}

const ReadinessTracker::Count* ReadinessTracker::find(const std::string& name) const {
  if (const auto slot = cache_.find(name)) {
    return *slot < slots_.size() ? &slots_[*slot] : nullptr;
  }
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

std::vector<Waiting> ReadinessTracker::waiting() const {
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

std::optional<ProcessSetId> ReadinessTracker::set_of(const std::string& name) const {
  if (const auto slot = cache_.find(name)) return cache_.request(*slot).set;
  const auto found = names_.find(name);
  if (found == names_.end()) return std::nullopt;
  return found->second.set;
}

std::vector<Rank> ReadinessTracker::missing(const std::string& name) const {
  std::vector<Rank> ranks;
  const Count* count = find(name);
  if (count == nullptr || count->round == 0) return ranks;
  const auto told = absences_.find(name);
  for (Reporter r = 0; r < reporters_; ++r) {
    if (has(*count, r)) continue;
    const std::vector<Rank>* those = &below(r);
    if (told != absences_.end()) {
      const auto detail = told->second.find(r);
      if (detail != told->second.end()) those = &detail->second.missing;
    }
    std::copy_if(those->begin(), those->end(), std::back_inserter(ranks),
                 [&](Rank rank) { return sets_.expects(count->set, rank); });
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Duration ReadinessTracker::held_below(const std::string& name) const {
  Duration held = Duration::zero();
  const auto told = absences_.find(name);
  if (told == absences_.end()) return held;
  for (const auto& [from, absence] : told->second) held = std::max(held, absence.held);
  return held;
}

}  // namespace hvd::engine
