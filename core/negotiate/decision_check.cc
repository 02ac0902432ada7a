#include "core/negotiate/decision_check.h"

namespace hvd {

void DecisionCheck::operator()(const Decision& decision) {
  changes_.clear();
  rejected_.clear();
  bound_ = cache_.size();
  ++number_;
  for (const Step& step : decision.steps) {
    if (const auto* run = std::get_if<RunSlots>(&step)) {
      check(decision.slots_of(*run));
    } else if (const auto* define = std::get_if<DefineSlot>(&step)) {
      check(*define);
    } else if (const auto* evict = std::get_if<EvictSlot>(&step)) {
      check(*evict);
    } else if (const auto* reject = std::get_if<RejectName>(&step)) {
      rejected_.insert(reject->name);
    }
  }
}

DecisionCheck::View DecisionCheck::view(SlotNumber slot) const {
  if (!changes_.empty()) {
    const auto changed = changes_.find(slot);
    if (changed != changes_.end()) return changed->second;
  }
  if (!cache_.defined(slot)) return {};
  return {&cache_.request(slot), cache_.once(slot)};
}

void DecisionCheck::check(const DefineSlot& step) {
  if (step.slot > bound_) ByteReader::malformed("slot out of range");
  if (step.slot == bound_) ++bound_;
  const Request* before = view(step.slot).request;
  if (before != nullptr && before->name != step.request.name) {
    ByteReader::malformed("slot is taken");
  }
  if (before == nullptr && step.slot < ran_.size()) ran_[step.slot] = 0;
  const auto* pending = submissions_.find(step.request.name);
  if (pending != nullptr && pending->request != step.request) {
    ByteReader::malformed("a slot that is not what was submitted");
  }
  changes_[step.slot] = {&step.request, step.once};
}

void DecisionCheck::check(const EvictSlot& step) {
  if (view(step.slot).request == nullptr) ByteReader::malformed("unknown slot");
  changes_[step.slot] = {};
}

void DecisionCheck::check(std::span<const SlotNumber> batch) {
  if (ran_.size() < bound_) ran_.resize(bound_);
  const Request* first = view(batch.front()).request;
  for (const SlotNumber slot : batch) {
    const View seen = view(slot);
    if (seen.request == nullptr) ByteReader::malformed("unknown slot");
    if (fusion_key(*seen.request) != fusion_key(*first)) {
      ByteReader::malformed("a batch of two kinds");
    }
    if (ran_[slot] == number_) ByteReader::malformed("a slot runs twice");
    ran_[slot] = number_;
    const std::string& name = seen.request->name;
    const bool pending = submissions_.has(slot) || submissions_.find(name) != nullptr;
    if (!pending || (!rejected_.empty() && rejected_.contains(name))) {
      ByteReader::malformed("runs what was not submitted");
    }
    if (seen.once) changes_[slot] = {};
  }
}

}  // namespace hvd
