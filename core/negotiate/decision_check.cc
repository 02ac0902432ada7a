#include "core/negotiate/decision_check.h"

namespace hvd::engine {
namespace {

// Whether what was submitted so runs when `defined` does: packed, it runs wherever it lies.
bool serves(const Request& defined, const Request& submitted) {
  return agree(defined, submitted) && (defined.flagged || !submitted.flagged) &&
         (defined.place.arena == 0 || defined.place == submitted.place);
}

}  // namespace

void DecisionCheck::operator()(const Decision& decision) {
  changes_.clear();
  changed_sets_.reset();
  rejected_.clear();
  bound_ = cache_.size();
  ++number_;
  for (const Step& step : decision.steps) {
    std::visit([&](const auto& known) { check(decision, known); }, step);
  }
}

DecisionCheck::View DecisionCheck::view(SlotNumber slot) const {
  if (!changes_.empty()) {
    const auto changed = changes_.find(slot);
    if (changed != changes_.end()) return changed->second;
  }
  if (!cache_.defined(slot)) return {};
  return {&cache_.request(slot), cache_.once(slot), submissions_.has(slot)};
}

ProcessSets& DecisionCheck::changed_sets() {
  if (!changed_sets_) changed_sets_ = applied_sets_;
  return *changed_sets_;
}

// What was submitted as the slot says is pending by slot; what waits for a slot, by name.
bool DecisionCheck::pending(SlotNumber slot, const std::string& name) const {
  const View seen = view(slot);
  const bool changed = !changes_.empty() && changes_.contains(slot);
  return seen.pending || (changed && submissions_.find(name) != nullptr);
}

void DecisionCheck::check(const Decision&, const DefineSlot& step) {
  const Request& request = *step.request;
  if (step.slot > bound_) ByteReader::malformed("slot out of range");
  if (step.slot == bound_) ++bound_;
  const View before = view(step.slot);
  if (before.request != nullptr &&
      (before.request->name != request.name || before.request->set != request.set)) {
    ByteReader::malformed("slot is taken");
  }
  if (before.request == nullptr && step.slot < ran_.size()) ran_[step.slot] = 0;
  const auto* mine = submissions_.find(request.name);
  if ((mine != nullptr && !serves(request, mine->request)) ||
      (before.pending && !serves(request, *before.request))) {
    ByteReader::malformed("a slot that is not what was submitted");
  }
  if (!fault_of(request, sets()).empty()) ByteReader::malformed("a slot that cannot run");
  changes_[step.slot] = {&request, step.once, before.pending};
}

void DecisionCheck::check(const Decision&, const EvictSlot& step) {
  if (view(step.slot).request == nullptr) ByteReader::malformed("unknown slot");
  changes_[step.slot] = {};
}

void DecisionCheck::check(const Decision&, const RejectName& step) {
  if (!sets().known(step.set)) ByteReader::malformed("unknown process set");
  const auto slot = cache_.find(step.name);
  const bool mine = submissions_.find(step.name) != nullptr || (slot && submissions_.has(*slot));
  if (mine != sets().expects(step.set, rank_)) {
    ByteReader::malformed("rejects what was not submitted");
  }
  if (!rejected_.insert(step.name).second) ByteReader::malformed("rejects a name twice");
}

void DecisionCheck::check(const Decision&, const JoinRank& step) {
  const auto& [set, rank, joins_average] = step.joining;
  if (!sets().known(set) || !sets().expects(set, rank)) ByteReader::malformed("cannot join");
  const auto mine = submissions_.joins().find(set);
  const bool announced = mine != submissions_.joins().end() && mine->second.announced;
  if (rank == rank_ && !announced) ByteReader::malformed("joins who did not ask for it");
  changed_sets().join(set, rank, joins_average);
}

void DecisionCheck::check(const Decision& decision, const RunSlots& step) {
  const auto batch = decision.slots_of(step);
  if (ran_.size() < bound_) ran_.resize(bound_);
  const Request* first = view(batch.front()).request;
  if (first == nullptr) ByteReader::malformed("unknown slot");
  const FusionKey key = fusion_key(*first);
  if (!sets().known(key.set)) ByteReader::malformed("unknown process set");
  const bool expected = sets().expects(key.set, rank_);
  for (const SlotNumber slot : batch) check_member(slot, key, expected);
  if (step.result.empty()) return;
  if (batch.size() != 1 || sets().joined(key.set) > 0 ||
      step.result.size() != eager_bytes(*first)) {
    ByteReader::malformed("the result of another batch");
  }
}

void DecisionCheck::check_member(SlotNumber slot, const FusionKey& key, bool expected) {
  const View seen = view(slot);
  if (seen.request == nullptr) ByteReader::malformed("unknown slot");
  const Request& request = *seen.request;
  if (fusion_key(request) != key) ByteReader::malformed("a batch of two kinds");
  if (ran_[slot] == number_) ByteReader::malformed("a slot runs twice");
  ran_[slot] = number_;
  if (expected != pending(slot, request.name) ||
      (!rejected_.empty() && rejected_.contains(request.name))) {
    ByteReader::malformed("runs what was not submitted");
  }
  if (changes_sets(request.kind)) change_sets(request);
  if (seen.once) changes_[slot] = {};
}

void DecisionCheck::change_sets(const Request& request) {
  if (!fault_of(request, sets()).empty()) ByteReader::malformed("no such process set");
  if (request.kind == CollectiveKind::kAddSet) {
    changed_sets().add(request.numbers);
    return;
  }
  const ProcessSetId set = removed_set(request);
  if (submissions_.pending_in(set) > 0 || submissions_.joins().contains(set)) {
    ByteReader::malformed("removes a process set that is in use");
  }
  changed_sets().remove(set);
}

}  // namespace hvd::engine
