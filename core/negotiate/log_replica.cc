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
    messages_.push(OutgoingMessage{child, Bytes(message.begin(), message.end())});
  }
  apply(decision_);
}

void RankProtocol::Impl::apply(const Decision& decision) {
  applied_ = decision.number;
  for (const Step& step : decision.steps) {
    if (stopped_) return;
    std::visit([&](const auto& s) { apply(decision, s); }, step);
  }
}

void RankProtocol::Impl::apply(const Decision&, const ChangeSettings& step) {
  settings_ = step.settings;
  names_monitor_ = StallMonitor(settings_.stall_warning, settings_.stall_limit);
}

void RankProtocol::Impl::apply(const Decision&, const DefineSlot& step) {
  cache_.define(step.slot, step.request, step.once);
  submissions_.settle(step.request.name, step.slot);
}

void RankProtocol::Impl::apply(const Decision& decision, const RunSlots& step) {
  const auto slots = decision.slots_of(step);
  items_.clear();
  for (const SlotNumber slot : slots) items_.push_back(cache_.item(slot));
  // One batch already: the plan only places its members.
  plan_fusion(items_, static_cast<std::size_t>(-1), plan_);
  const FusedGroup& group = plan_.groups.front();
  RunBatch batch{batches_++,       group.key.kind, group.key.dtype,
                 group.key.device, group.key.op,   group.key.root,
                 tree_.size,       group.bytes,    {}};
  batch.members.reserve(slots.size());
  for (const FusedMember& member : plan_.members) {
    batch.members.push_back({*submissions_.take(member.id), member.offset});
    if (cache_.once(member.id)) cache_.erase(member.id);
  }
  effects_.push(std::move(batch));
}

void RankProtocol::Impl::apply(const Decision&, const RejectName& step) {
  tally_.clear(step.name, applied_);
  std::optional<Ticket> ticket = submissions_.take(step.name);
  if (!ticket) {
    if (const auto slot = cache_.find(step.name)) ticket = submissions_.take(*slot);
  }
  if (ticket) {
    effects_.push(FailTicket{*ticket, step.why});
  } else {
    rejected_ahead_[step.name].push_back(step.why);
  }
}

void RankProtocol::Impl::apply(const Decision&, const EvictSlot& step) {
  const Request request = cache_.request(step.slot);
  tally_.clear(request.name, applied_);
  submissions_.unsettle(step.slot, request);
  cache_.erase(step.slot);
  if (const auto* pending = submissions_.find(request.name)) announce(pending->request);
}

void RankProtocol::Impl::apply(const Decision&, const Ask&) {
  outbox_.sightings.push_back({tree_.rank, last_submitted_});
}

void RankProtocol::Impl::apply(const Decision&, const Stop& step) {
  stop(step.why, true);
}

}  // namespace hvd
