#include "core/negotiate/log_replica.h"

#include <memory>

namespace hvd::engine {

void LogReplica::apply(Decision& decision) {
  log_.applied = decision.number;
  for (Step& step : decision.steps) {
    if (stopped_) return;
    std::visit([&](auto& s) { apply(decision, s); }, step);
  }
  announcer_.announce_joins();
}

void LogReplica::apply(const Decision&, const ChangeSettings& step) {
  log_.settings = step.settings;
  stalls_.set_limits();
}

void LogReplica::apply(const Decision&, const DefineSlot& step) {
  Submissions& submissions = announcer_.submissions();
  if (submissions.has(step.slot)) submissions.keep(step.slot, log_.cache.request(step.slot));
  log_.cache.define(step.slot, step.request, step.once);
  submissions.bind_slot(step.request->name, step.slot);
}

void LogReplica::apply(const Decision& decision, RunSlots& step) {
  const auto slots = decision.slots_of(step);
  if (!changes_sets(log_.cache.request(slots.front()).kind)) {
    return run_batch(slots, std::move(step.result));
  }
  for (const SlotNumber slot : slots) change_sets(slot);
}

// Ranks outside the set count the batch, and that is all.
void LogReplica::run_batch(std::span<const SlotNumber> slots, Bytes&& result) {
  const FusionKey& key = log_.cache.key(slots.front());
  RunBatch batch{batches_++, key, log_.sets.divisor(key.set), 0, {}, std::move(result)};
  if (log_.sets.joined(key.set) > 0) batch.key.arena = 0;  // a joined rank brings no arena
  const bool member = log_.sets.has(key.set, rank_);
  if (member) batch.members = spare_members_.take();
  stalls_.note_progress(key.set);
  if (member) batch.members.reserve(slots.size());
  if (log_.sets.lowest(key.set) == rank_) credits_to_return_.push_back(batch.number);
  for (const SlotNumber slot : slots) {
    batch.bytes += log_.cache.bytes(slot);
    const Ticket ticket = announcer_.submissions().take(slot).value_or(0);
    if (member) batch.members.push_back({ticket, log_.cache.shared_request(slot)});
    forget(slot);
  }
  if (!member) return;
  ++running_;
  effects_.push(std::move(batch));
}

void LogReplica::finished(std::uint64_t batch) {
  if (running_ > 0) --running_;
  if (std::erase(credits_to_return_, batch) != 0) announcer_.outbox().finished.push_back(batch);
}

void LogReplica::change_sets(SlotNumber slot) {
  const std::shared_ptr<const Request> request = log_.cache.shared_request(slot);
  const Ticket ticket = announcer_.submissions().take(slot).value_or(0);
  forget(slot);
  if (request->kind == CollectiveKind::kAddSet) {
    const ProcessSetId set = log_.sets.add(request->numbers);
    announcer_.recount(set);
    effects_.push(SetAdded{ticket, set, log_.sets.ranks(set)});
    return;
  }
  const ProcessSetId set = removed_set(*request);
  log_.sets.remove(set);
  announcer_.recount(set);
  effects_.push(SetRemoved{ticket, set});
}

void LogReplica::forget(SlotNumber slot) {
  if (log_.cache.once(slot)) log_.cache.erase(slot);
}

void LogReplica::apply(const Decision&, const RejectName& step) {
  fail(step.name, step.why);
  for (std::int32_t number = 0; step.others >> number != 0; ++number) {
    if ((step.others >> number & 1) == 0) continue;
    const std::string name = name_of_other(step.name, number);
    announcer_.readiness().clear(name, log_.applied);  // ranks that have none announce none
    fail(name, step.why);
  }
}

void LogReplica::fail(const std::string& name, const Status& why) {
  std::optional<Ticket> ticket = announcer_.submissions().take(name);
  if (!ticket) {
    if (const auto slot = log_.cache.find(name)) ticket = announcer_.submissions().take(*slot);
  }
  if (ticket) effects_.push(FailTicket{*ticket, why});
}

void LogReplica::apply(const Decision&, const JoinRank& step) {
  const auto& [set, rank, joins_average] = step.joining;
  const bool all = log_.sets.join(set, rank, joins_average);
  stalls_.joined(set);
  announcer_.recount(set);
  if (!all || !log_.sets.has(set, rank_)) return;
  effects_.push(AllJoined{announcer_.submissions().end_join(set), rank});
}

void LogReplica::apply(const Decision&, const EvictSlot& step) {
  const Request request = log_.cache.request(step.slot);
  Submissions& submissions = announcer_.submissions();
  announcer_.readiness().clear(request.name, log_.applied);
  submissions.unbind_slot(step.slot, request);
  log_.cache.erase(step.slot);
  if (const auto* pending = submissions.find(request.name)) announcer_.announce(pending->request);
}

void LogReplica::apply(const Decision&, const Ask&) {
  ++asks_;
  if (rank_ == 0) stalls_.diagnosis().asked();
  effects_.push(ProbeRanks{});
}

void LogReplica::apply(const Decision&, const Stop& step) {
  stopped_ = step.why;
}

}  // namespace hvd::engine
