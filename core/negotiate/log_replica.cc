// Decisions: every rank checks one as a whole, hands it on, and applies it.

#include "core/negotiate/rank_protocol_impl.h"

namespace hvd {

void RankProtocol::Impl::receive_decision(std::span<const std::byte> message, ByteReader& in) {
  read_decision(in, decision_);
  if (stopped_) return;
  if (decision_.number != applied_ + 1) ByteReader::malformed("a decision out of turn");
  check_decision_(decision_);
  flush();  // under the number that was applied when it became ready
  for (const Rank child : tree_.children) {
    OutgoingMessage copy{child, take_spare(spare_bytes_)};
    copy.bytes.assign(message.begin(), message.end());
    messages_.push(std::move(copy));
  }
  apply(decision_);
}

void RankProtocol::Impl::apply(const Decision& decision) {
  applied_ = decision.number;
  for (const Step& step : decision.steps) {
    if (stopped_) return;
    std::visit([&](const auto& s) { apply(decision, s); }, step);
  }
  announce_joins();
}

void RankProtocol::Impl::apply(const Decision&, const ChangeSettings& step) {
  settings_ = step.settings;
  stalls_.set_limits();
}

void RankProtocol::Impl::apply(const Decision&, const DefineSlot& step) {
  if (submissions_.has(step.slot)) submissions_.keep(step.slot, cache_.request(step.slot));
  cache_.define(step.slot, step.request, step.once);
  submissions_.bind_slot(step.request->name, step.slot);
}

void RankProtocol::Impl::apply(const Decision& decision, const RunSlots& step) {
  const auto slots = decision.slots_of(step);
  if (!changes_sets(cache_.request(slots.front()).kind)) return run_batch(slots);
  for (const SlotNumber slot : slots) change_sets(slot);
}

// Ranks outside the set count the batch, and that is all.
void RankProtocol::Impl::run_batch(std::span<const SlotNumber> slots) {
  const FusionKey& key = cache_.item(slots.front()).key;
  RunBatch batch{batches_++, key, sets_.divisor(key.set), 0, {}};
  if (sets_.joined(key.set) > 0) batch.key.arena = 0;  // a joined rank brings no arena
  const bool member = sets_.has(key.set, tree_.rank);
  if (member) batch.members = take_spare(spare_members_);
  stalls_.note_progress(key.set);
  if (member) batch.members.reserve(slots.size());
  if (sets_.lowest(key.set) == tree_.rank) credits_to_return_.push_back(batch.number);
  for (const SlotNumber slot : slots) {
    batch.bytes += cache_.item(slot).bytes;
    const Ticket ticket = submissions_.take(slot).value_or(0);
    if (member) batch.members.push_back({ticket, cache_.shared_request(slot)});
    forget(slot);
  }
  if (!member) return;
  ++running_;
  effects_.push(std::move(batch));
}

void RankProtocol::Impl::change_sets(SlotNumber slot) {
  const std::shared_ptr<const Request> request = cache_.shared_request(slot);
  const Ticket ticket = submissions_.take(slot).value_or(0);
  forget(slot);
  if (request->kind == CollectiveKind::kAddSet) {
    const ProcessSetId set = sets_.add(request->numbers);
    readiness_.recount(set, applied_, outbox_);
    effects_.push(SetAdded{ticket, set, sets_.ranks(set)});
    return;
  }
  const ProcessSetId set = removed_set(*request);
  sets_.remove(set);
  readiness_.recount(set, applied_, outbox_);
  effects_.push(SetRemoved{ticket, set});
}

void RankProtocol::Impl::forget(SlotNumber slot) {
  if (cache_.once(slot)) cache_.erase(slot);
}

void RankProtocol::Impl::apply(const Decision&, const RejectName& step) {
  std::optional<Ticket> ticket = submissions_.take(step.name);
  if (!ticket) {
    if (const auto slot = cache_.find(step.name)) ticket = submissions_.take(*slot);
  }
  if (ticket) effects_.push(FailTicket{*ticket, step.why});
}

void RankProtocol::Impl::apply(const Decision&, const JoinRank& step) {
  const auto& [set, rank, joins_average] = step.joining;
  const bool all = sets_.join(set, rank, joins_average);
  stalls_.joined(set);
  readiness_.recount(set, applied_, outbox_);
  if (!all || !sets_.has(set, tree_.rank)) return;
  effects_.push(AllJoined{submissions_.end_join(set), rank});
}

void RankProtocol::Impl::apply(const Decision&, const EvictSlot& step) {
  const Request request = cache_.request(step.slot);
  readiness_.clear(request.name, applied_);
  submissions_.unbind_slot(step.slot, request);
  cache_.erase(step.slot);
  if (const auto* pending = submissions_.find(request.name)) announce(pending->request);
}

void RankProtocol::Impl::apply(const Decision&, const Ask&) {
  ++asks_;
  if (root()) stalls_.diagnosis().asked();
  effects_.push(ProbeRanks{});
}

void RankProtocol::Impl::apply(const Decision&, const Stop& step) {
  stop(step.why, true);
}

}  // namespace hvd
