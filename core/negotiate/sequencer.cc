#include "core/negotiate/sequencer.h"

#include <algorithm>

namespace hvd {
namespace {

// How far one decision looks ahead for tensors that may share a batch; bounds its work.
constexpr std::size_t kLookAhead = 1024;

Status disagreement(const Variants& variants) {
  const Variant& a = variants[0].lowest < variants[1].lowest ? variants[0] : variants[1];
  const Variant& b = &a == &variants[0] ? variants[1] : variants[0];
  return {StatusCode::kMismatch, "tensor \"" + a.request.name + "\": ranks disagree about its " +
                                     describe_difference(a.request, a.lowest, b.request, b.lowest)};
}

}  // namespace

Sequencer::Sequencer(const NegotiationSettings& settings, int size, const ResponseCache& cache)
    : settings_(settings), size_(size), cache_(cache), slots_(settings.cache_capacity) {}

void Sequencer::take(Announcement& complete) {
  for (const SlotNumber slot : complete.slots) {
    slots_.set_busy(slot);
    ready_.push_back({slot, nullptr});
  }
  for (const Variants& variants : complete.names) take_name(variants);
  complete.clear();
}

void Sequencer::take_name(const Variants& variants) {
  const Request& request = variants.front().request;
  if (variants.size() > 1) {
    rejects_.push_back({request.name, disagreement(variants)});
    return;
  }
  const auto slot = cache_.find(request.name);
  if (slot) slots_.set_busy(*slot);
  const bool same = slot && cache_.request(*slot) == request;
  ready_.push_back({slot.value_or(kNoSlot), same ? nullptr : std::make_unique<Request>(request)});
}

void Sequencer::finished(std::uint64_t batch) {
  std::erase_if(running_, [&](const RunningBatch& running) { return running.number == batch; });
}

void Sequencer::leave(Rank rank) {
  if (!leaving_) leaving_ = rank;
}

bool Sequencer::has_credit(DeviceKind device) const {
  const auto used = std::count_if(running_.begin(), running_.end(),
                                  [&](const RunningBatch& r) { return r.device == device; });
  return used < settings_.batches_in_flight;
}

bool Sequencer::has_credit() const {
  return has_credit(DeviceKind::kCpu) || has_credit(DeviceKind::kCuda);
}

void Sequencer::decide(TimePoint now, Decision& decision) {
  if (stopped_) return;
  if (!settings_told_) decision.steps.emplace_back(ChangeSettings{settings_});
  settings_told_ = true;
  for (RejectName& reject : rejects_) decision.steps.emplace_back(std::move(reject));
  rejects_.clear();
  if (ask_) decision.steps.emplace_back(Ask{});
  ask_ = false;
  gap_ends_.reset();
  if (last_run_ && now < *last_run_ + settings_.batching_gap) {
    if (!ready_.empty()) gap_ends_ = *last_run_ + settings_.batching_gap;
  } else if (!ready_.empty() && has_credit()) {
    run_ready(now, decision);
  }
  if (leaving_ && ready_.empty()) {
    stopped_ = true;
    decision.steps.emplace_back(
        Stop{{StatusCode::kAborted, "rank " + std::to_string(*leaving_) + " left the job"}});
  }
}

void Sequencer::run_ready(TimePoint now, Decision& decision) {
  items_.clear();
  const std::size_t seen = std::min(ready_.size(), kLookAhead);
  for (std::size_t i = 0; i < seen; ++i) {
    const Ready& ready = ready_[i];
    FusionItem item = ready.in_full
                          ? FusionItem{0, fusion_key(*ready.in_full), ready.in_full->bytes()}
                          : cache_.item(ready.slot);
    item.id = static_cast<std::uint32_t>(i);
    items_.push_back(item);
  }
  plan_fusion(items_, settings_.fusion_threshold, plan_);

  bool any = false;
  for (const FusedGroup& group : plan_.groups) {
    if (!has_credit(group.key.device)) continue;
    run_group(group, decision);
    any = true;
    for (const FusedMember& member : plan_.members_of(group)) items_[member.id].id = kNoSlot;
  }
  if (!any) return;
  last_run_ = now;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (i < seen && items_[i].id == kNoSlot) continue;
    if (kept != i) ready_[kept] = std::move(ready_[i]);
    ++kept;
  }
  ready_.resize(kept);
}

void Sequencer::run_group(const FusedGroup& group, Decision& decision) {
  RunSlots run{static_cast<std::uint32_t>(decision.slots.size()),
               static_cast<std::uint32_t>(group.count)};
  once_.clear();
  const Ready& first = ready_[plan_.members_of(group).front().id];
  running_.push_back({batches_++, group.key.device,
                      first.in_full ? first.in_full->name : cache_.request(first.slot).name});
  for (const FusedMember& member : plan_.members_of(group)) {
    Ready& ready = ready_[member.id];
    const SlotNumber slot = ready.in_full ? define(ready, decision) : ready.slot;
    decision.slots.push_back(slot);
  }
  decision.steps.emplace_back(run);
  for (const SlotNumber slot : decision.slots_of(run)) slots_.ran(slot);
  for (const SlotNumber slot : once_) slots_.free(slot);
}

// The slot that will stand for `ready`: the one its name has, else a free one, else that of the
// least recently run name, else (all are about to run) one for this run only.
SlotNumber Sequencer::define(Ready& ready, Decision& decision) {
  SlotNumber slot = ready.slot;
  bool once = false;
  if (slot == kNoSlot) {
    once = ready.in_full->automatic_name || settings_.cache_capacity == 0;
    if (!once && slots_.full()) {
      if (const auto victim = slots_.least_recent()) {
        decision.steps.emplace_back(EvictSlot{*victim});
        slots_.free(*victim);
      } else {
        once = true;
      }
    }
    slot = slots_.take();
    if (once) {
      once_.push_back(slot);
    } else {
      slots_.keep(slot);
    }
  }
  decision.steps.emplace_back(DefineSlot{slot, std::move(*ready.in_full), once});
  return slot;
}

}  // namespace hvd
