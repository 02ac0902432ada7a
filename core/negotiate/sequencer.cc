#include "core/negotiate/sequencer.h"

#include <algorithm>

#include "core/negotiate/messages/request.h"

namespace hvd::engine {
namespace {

// How far one decision looks ahead for tensors that may share a batch; bounds its work.
constexpr std::size_t kLookAhead = 1024;

// Those with a fault come first: what else ranks disagree about can wait.
std::optional<Status> fault_in(const Variants& variants) {
  const Variant* found = nullptr;
  for (const Variant& variant : variants) {
    if (variant.request.not_finite.empty()) continue;
    if (found == nullptr || variant.lowest < found->lowest) found = &variant;
  }
  if (found == nullptr) return std::nullopt;
  return Status{StatusCode::kInvalidArgument,
                "rank " + std::to_string(found->lowest) + "'s " + found->request.not_finite};
}

Status disagreement(const Variants& variants) {
  const Variant& a = variants[0].lowest < variants[1].lowest ? variants[0] : variants[1];
  const Variant& b = &a == &variants[0] ? variants[1] : variants[0];
  return {StatusCode::kMismatch, readable_name(a.request.name) + ": ranks disagree about the " +
                                     describe_difference(a.request, a.lowest, b.request, b.lowest)};
}

std::string teardown_of(const Leaving& leaving) {
  return "rank " + std::to_string(leaving.rank) + " left the job after " +
         std::to_string(leaving.submissions) +
         (leaving.submissions == 1 ? " submission" : " submissions") +
         " (it ended, or called shutdown())";
}

}  // namespace

Sequencer::Sequencer(const NegotiationSettings& settings, const ResponseCache& cache,
                     const ProcessSets& sets, ReduceHere reduce)
    : settings_(settings),
      cache_(cache),
      sets_(sets),
      reduce_(std::move(reduce)),
      slots_(settings.cache_capacity) {}

void Sequencer::take(Announcement& complete) {
  for (const SlotNumber slot : complete.slots) {
    if (reject_for_a_join(cache_.request(slot))) continue;
    slots_.set_busy(slot);
    ready_.push_back({slot, nullptr});
    if (!complete.eager.empty()) ready_.back().result = reduce_eager(slot, complete.eager);
  }
  for (const Variants& variants : complete.names) take_name(variants);
  joined_.insert(joined_.end(), complete.joined.begin(), complete.joined.end());
  for (const std::uint64_t batch : complete.finished) finished(batch);
  complete.clear();
}

// Nothing, unless all ranks of the process set sent theirs.
Bytes Sequencer::reduce_eager(SlotNumber slot, std::span<const EagerValues> all) {
  const FusionKey& key = cache_.key(slot);
  std::size_t bytes = 0;
  inputs_.clear();
  for (const EagerValues& each : all) {
    if (each.slot != slot) continue;
    inputs_.push_back(each.values.data());
    bytes = each.values.size();
  }
  const std::vector<Rank>& ranks = sets_.ranks(key.set);
  if (reduce_ == nullptr || sets_.joined(key.set) > 0 || inputs_.size() != ranks.size()) return {};
  Bytes result(bytes);
  const auto numel = static_cast<std::int64_t>(bytes / size_of(key.dtype));
  const Reduction reduction = reduction_of(key, sets_.divisor(key.set));
  if (!reduce_(ranks, inputs_, key.dtype, numel, reduction, result.data())) result.clear();
  return result;
}

void Sequencer::take_name(const Variants& variants) {
  const Request& request = variants.front().request;
  if (const auto fault = fault_in(variants)) {
    rejects_.push_back({request.set, request.name, *fault});
    return;
  }
  if (variants.size() > 1) {
    RejectName& reject =
        rejects_.emplace_back(RejectName{request.set, request.name, disagreement(variants)});
    const bool alone = std::ranges::all_of(
        variants, [](const Variant& each) { return each.request.numbers.empty(); });
    if (!alone && !changes_sets(request.kind)) reject.others = kAllOthers;
    return;
  }
  if (reject_for_a_join(request)) return;
  const auto slot = cache_.find(request.name);
  if (slot) slots_.set_busy(*slot);
  // Ranks moved, and not to one place: others may have announced by the slot alone, so that where
  // they are is not known.
  const bool moved = slot && request.place.arena == 0 && agree(cache_.request(*slot), request);
  ready_.push_back(
      {slot.value_or(kNoSlot), std::make_shared<const Request>(request), moved || request.flagged});
}

// No rank joins while it has something pending, so a needed rank that has joined did so before.
bool Sequencer::reject_for_a_join(const Request& request) {
  std::string why;
  if (needs_root(request.kind) && sets_.joined(request.set, request.root)) {
    why = readable_name(request.name) + ": rank " + std::to_string(request.root) +
          ", the root of this " + name_of(request.kind) + ", has joined";
  } else if (request.kind == CollectiveKind::kRemoveSet && sets_.joined(kWorldSet) > 0) {
    why = describe_set(removed_set(request)) +
          " may be in use: it cannot be removed while a rank has joined the world";
  } else {
    return false;
  }
  rejects_.push_back({request.set, request.name, {StatusCode::kMismatch, why}});
  return true;
}

bool Sequencer::is_ready(const std::string& name) const {
  return std::ranges::any_of(ready_, [&](const Ready& ready) {
    return (ready.in_full ? ready.in_full->name : cache_.request(ready.slot).name) == name;
  });
}

void Sequencer::finished(std::uint64_t batch) {
  std::erase_if(running_, [&](const RunningBatch& running) { return running.number == batch; });
}

void Sequencer::change(const NegotiationSettings& settings) {
  settings_ = settings;
  settings_told_ = false;
  slots_.set_capacity(settings.cache_capacity);
}

void Sequencer::leave(const Leaving& rank) {
  if (!leaving_) leaving_ = rank;
}

bool Sequencer::may_run(CollectiveKind kind, ProcessSetId set, DeviceKind device) const {
  if (changes_sets(kind)) return true;
  const auto used = std::count_if(running_.begin(), running_.end(), [&](const RunningBatch& r) {
    return r.set == set && r.device == device;
  });
  return used < settings_.batches_in_flight;
}

void Sequencer::decide(TimePoint now, Decision& decision) {
  if (stopped_) return;
  if (!settings_told_) decision.steps.emplace_back(ChangeSettings{settings_});
  settings_told_ = true;
  for (RejectName& reject : rejects_) {
    for (std::int32_t number = 0; reject.others >> number != 0; ++number) {
      if (is_ready(name_of_other(reject.name, number))) reject.others &= ~(1u << number);
    }
    decision.steps.emplace_back(std::move(reject));
  }
  rejects_.clear();
  if (ask_) decision.steps.emplace_back(Ask{});
  ask_ = false;
  gap_ends_.reset();
  if (last_run_ && now < *last_run_ + settings_.batching_gap) {
    if (!ready_.empty()) gap_ends_ = *last_run_ + settings_.batching_gap;
  } else if (!ready_.empty()) {
    run_ready(now, decision);
  }
  // After the evictions: what becomes complete by a join may be announced by its slot.
  for (const Joining& joining : joined_) decision.steps.emplace_back(JoinRank{joining});
  joined_.clear();
  if (leaving_ && ready_.empty()) {
    stopped_ = true;
    decision.steps.emplace_back(Stop{{StatusCode::kAborted, teardown_of(*leaving_)}});
  }
}

// Neighbours mostly belong to one set and device: their credit is looked up once.
void Sequencer::plan_runnable() {
  plan_.begin(settings_.deterministic ? 0 : settings_.fusion_threshold);
  const Request* before = nullptr;
  bool may = false;
  for (std::size_t i = 0; i < ready_.size() && plan_.size() < kLookAhead; ++i) {
    const Ready& ready = ready_[i];
    const Request& request = ready.in_full ? *ready.in_full : cache_.request(ready.slot);
    const bool same = before != nullptr && before->set == request.set &&
                      before->device == request.device && before->kind == request.kind;
    if (!same) may = may_run(request.kind, request.set, request.device);
    before = &request;
    if (!may) continue;
    const auto place = static_cast<std::uint32_t>(i);
    if (ready.in_full) {
      plan_.add(place, fusion_key(request), fused_bytes(request));
    } else {
      plan_.add(place, cache_.key(ready.slot), cache_.bytes(ready.slot));
    }
  }
  plan_.finish();
}

void Sequencer::run_ready(TimePoint now, Decision& decision) {
  plan_runnable();
  bool any = false;
  for (const FusedGroup& group : plan_.groups()) {
    if (!may_run(group.key.kind, group.key.set, group.key.device)) continue;
    run_group(group, decision);
    any = true;
  }
  if (!any) return;
  last_run_ = now;
  std::erase_if(ready_, [](const Ready& ready) { return ready.done; });
}

void Sequencer::run_group(const FusedGroup& group, Decision& decision) {
  RunSlots run{static_cast<std::uint32_t>(decision.slots.size()),
               static_cast<std::uint32_t>(group.count)};
  once_.clear();
  const Ready& first = ready_[plan_.members_of(group).front()];
  if (!changes_sets(group.key.kind)) {
    running_.push_back({batches_++, group.key.set, group.key.device,
                        first.in_full ? first.in_full : cache_.shared_request(first.slot)});
  }
  const bool alone = group.count == 1 && sets_.joined(group.key.set) == 0;
  for (const std::uint32_t member : plan_.members_of(group)) {
    Ready& ready = ready_[member];
    if (alone) run.result = std::move(ready.result);
    const SlotNumber slot = ready.in_full ? define(ready, decision) : ready.slot;
    decision.slots.push_back(slot);
    ready.done = true;
  }
  for (const SlotNumber slot : decision.slots_of(run)) slots_.ran(slot);
  decision.steps.emplace_back(std::move(run));
  for (const SlotNumber slot : once_) slots_.free(slot);
}

// The slot that will stand for `ready`: the one its name has, else a free one, else that of the
// least recently run name, else (all are about to run) one for this run only.
SlotNumber Sequencer::define(Ready& ready, Decision& decision) {
  SlotNumber slot = ready.slot;
  bool once = ready.once;
  if (slot == kNoSlot) {
    once = once || ready.in_full->automatic_name || changes_sets(ready.in_full->kind) ||
           settings_.cache_capacity == 0;
    while (!once && slots_.full()) {
      if (const auto victim = slots_.least_recent()) {
        decision.steps.emplace_back(EvictSlot{*victim});
        slots_.free(*victim);
      } else {
        once = true;
      }
    }
    slot = slots_.take();
    if (!once) slots_.keep(slot);
  }
  if (once) once_.push_back(slot);
  decision.steps.emplace_back(DefineSlot{slot, std::move(ready.in_full), once});
  return slot;
}

}  // namespace hvd::engine
