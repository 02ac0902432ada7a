#include "core/negotiate/rank_protocol.h"

#include <algorithm>

#include "core/negotiate/rank_protocol_impl.h"

namespace hvd {

RankProtocol::Impl::Impl(Tree tree, const NegotiationSettings& settings, std::uint32_t epoch)
    : tree_(std::move(tree)),
      settings_(settings),
      epoch_(epoch),
      tally_(tree_, cache_),
      names_monitor_(settings.stall_warning, settings.stall_limit),
      batches_monitor_(settings.stall_warning, settings.stall_limit),
      gone_(tree_.children.size(), false) {
  if (tree_.below.size() != tree_.children.size()) {
    throw InvalidArgumentError("RankProtocol: the tree does not say which ranks are below rank " +
                               std::to_string(tree_.rank));
  }
  if (settings_.batches_in_flight < 1) {
    throw InvalidArgumentError("RankProtocol: batches_in_flight is " +
                               std::to_string(settings_.batches_in_flight) +
                               ", at least 1 is needed");
  }
  if (root()) sequencer_.emplace(settings_, tree_.size, cache_);
}

void RankProtocol::Impl::submit(Ticket ticket, const Request& request) {
  if (stopped_) stopped_->throw_if_error();
  if (leaving_) throw AbortedError("tensor \"" + request.name + "\": this rank has shut down");
  if (request.root < 0 || request.root >= tree_.size) {
    throw InvalidArgumentError("tensor \"" + request.name + "\": root rank " +
                               std::to_string(request.root) + " in a world of " +
                               std::to_string(tree_.size));
  }
  const auto slot = cache_.find(request.name);
  if ((slot && submissions_.has(*slot)) || submissions_.find(request.name) != nullptr) {
    throw InvalidArgumentError("tensor \"" + request.name + "\" is in flight already");
  }
  last_submitted_ = request.name;
  if (!rejected_ahead_.empty()) {
    const auto rejected = rejected_ahead_.find(request.name);
    if (rejected != rejected_ahead_.end()) {
      effects_.push(FailTicket{ticket, std::move(rejected->second.front())});
      rejected->second.pop_front();
      if (rejected->second.empty()) rejected_ahead_.erase(rejected);
      return;
    }
  }
  if (slot && cache_.request(*slot) == request) {
    submissions_.add(*slot, ticket);
    tally_.add(*slot, Tally::kSelf, applied_, outbox_);
  } else {
    submissions_.add(request, ticket);
    announce(request);
  }
}

void RankProtocol::Impl::announce(const Request& request) {
  tally_.add(Variants{{request, tree_.rank, 1}}, Tally::kSelf, applied_, outbox_);
}

void RankProtocol::Impl::finished(std::uint64_t batch) {
  if (sequencer_) sequencer_->finished(batch);
}

void RankProtocol::Impl::receive(Rank from, std::span<const std::byte> message) {
  ByteReader in(message);
  const MessageHeader header = read_header(in);
  if (header.epoch != epoch_) return;
  switch (header.kind) {
    case MessageKind::kAnnouncement:
      return receive_announcement(from, in);
    case MessageKind::kDecision:
      if (root() || from != tree_.parent) ByteReader::malformed("a decision not from the parent");
      return receive_decision(message, in);
    case MessageKind::kAlarm:
      if (!root()) ByteReader::malformed("an alarm for a rank that is not rank 0");
      return receive_alarm(in);
    case MessageKind::kHalt:
      return receive_alarm(in);
    case MessageKind::kConfirm:
      in.expect_end();
      if (!reporter_of(from)) ByteReader::malformed("a confirmation not from a child");
      lost(from);
      return;
  }
}

std::optional<Tally::Reporter> RankProtocol::Impl::reporter_of(Rank child) const {
  const auto found = std::lower_bound(tree_.children.begin(), tree_.children.end(), child);
  if (found == tree_.children.end() || *found != child) return std::nullopt;
  return static_cast<Tally::Reporter>(found - tree_.children.begin()) + 1;
}

void RankProtocol::Impl::check(const Variants& variants, Tally::Reporter from) const {
  std::int64_t count = 0;
  for (const Variant& variant : variants) {
    count += variant.count;
    if (variant.request.root < 0 || variant.request.root >= tree_.size) {
      ByteReader::malformed("root out of range");
    }
    if (variant.lowest >= tree_.size) ByteReader::malformed("rank out of range");
  }
  if (count != tally_.weight(from)) ByteReader::malformed("announced by too few or too many");
  if (variants.size() == 2 && variants[0].request == variants[1].request) {
    ByteReader::malformed("one variant twice");
  }
}

void RankProtocol::Impl::check(const Announcement& announcement, Tally::Reporter from) const {
  if (announcement.applied > applied_) ByteReader::malformed("applied what is not decided");
  for (const SlotNumber slot : announcement.slots) {
    if (!tally_.is_void(slot, announcement.applied) && !cache_.defined(slot)) {
      ByteReader::malformed("unknown slot");
    }
  }
  for (const Variants& variants : announcement.names) check(variants, from);
  const auto outside = [&](Rank rank) { return rank >= tree_.size; };
  for (const Absence& absence : announcement.absences) {
    if (std::any_of(absence.missing.begin(), absence.missing.end(), outside)) {
      ByteReader::malformed("rank out of range");
    }
  }
  for (const Sighting& sighting : announcement.sightings) {
    if (outside(sighting.rank)) ByteReader::malformed("rank out of range");
  }
  if (std::any_of(announcement.leaving.begin(), announcement.leaving.end(), outside)) {
    ByteReader::malformed("rank out of range");
  }
}

void RankProtocol::Impl::receive_announcement(Rank from, ByteReader& in) {
  const auto reporter = reporter_of(from);
  if (!reporter) ByteReader::malformed("an announcement not from a child");
  read_announcement(in, incoming_);
  check(incoming_, *reporter);
  if (stopped_) return;
  const std::uint64_t applied = incoming_.applied;
  tally_.child_applied(*reporter, applied);
  for (const Absence& absence : incoming_.absences) take(absence, *reporter);
  for (const SlotNumber slot : incoming_.slots) tally_.add(slot, *reporter, applied, outbox_);
  for (const Variants& variants : incoming_.names) {
    tally_.add(variants, *reporter, applied, outbox_);
  }
  outbox_.leaving.insert(outbox_.leaving.end(), incoming_.leaving.begin(), incoming_.leaving.end());
  for (Sighting& sighting : incoming_.sightings) outbox_.sightings.push_back(std::move(sighting));
}

// A child has waited long: so has this node, whether it knew the name or not.
void RankProtocol::Impl::take(const Absence& absence, Tally::Reporter from) {
  if (tally_.is_void(absence.name, incoming_.applied)) return;
  tally_.add(absence, from);
  if (!root()) tell_absence(absence.name, absence.held);
}

void RankProtocol::Impl::flush() {
  if (stopped_) return;
  if (!root()) {
    if (outbox_.empty()) return;
    outbox_.applied = applied_;
    send(tree_.parent, MessageKind::kAnnouncement, outbox_);
    outbox_.clear();
    return;
  }
  while (!stopped_) {
    for (const Rank rank : outbox_.leaving) sequencer_->leave(rank);
    for (Sighting& sighting : outbox_.sightings) {
      sightings_.insert_or_assign(sighting.rank, std::move(sighting));
    }
    sequencer_->take(outbox_);
    decision_.clear();
    sequencer_->decide(now_, decision_);
    if (decision_.steps.empty()) return;
    decision_.number = applied_ + 1;
    for (const Rank child : tree_.children) send(child, MessageKind::kDecision, decision_);
    apply(decision_);
  }
}

std::optional<OutgoingMessage> RankProtocol::Impl::next_message() {
  flush();
  return messages_.pop();
}

std::optional<Effect> RankProtocol::Impl::next_effect() {
  if (root()) flush();
  return effects_.pop();
}

RankProtocol::RankProtocol(Tree tree, NegotiationSettings settings, std::uint32_t epoch)
    : impl_(std::make_unique<Impl>(std::move(tree), settings, epoch)) {}
RankProtocol::~RankProtocol() = default;
RankProtocol::RankProtocol(RankProtocol&&) noexcept = default;
RankProtocol& RankProtocol::operator=(RankProtocol&&) noexcept = default;

void RankProtocol::submit(Ticket ticket, const Request& request) {
  impl_->submit(ticket, request);
}
void RankProtocol::finished(std::uint64_t batch) {
  impl_->finished(batch);
}
void RankProtocol::leave() {
  impl_->leave();
}
void RankProtocol::fail(const Status& why) {
  impl_->fail(why);
}
void RankProtocol::peer_lost(Rank rank, const Status& why) {
  impl_->peer_lost(rank, why);
}
void RankProtocol::receive(Rank from, std::span<const std::byte> message) {
  impl_->receive(from, message);
}
void RankProtocol::tick(TimePoint now) {
  impl_->tick(now);
}
std::optional<OutgoingMessage> RankProtocol::next_message() {
  return impl_->next_message();
}
std::optional<Effect> RankProtocol::next_effect() {
  return impl_->next_effect();
}
std::optional<TimePoint> RankProtocol::next_deadline() const {
  return impl_->next_deadline();
}
bool RankProtocol::finished_leaving() const {
  return impl_->finished_leaving();
}

}  // namespace hvd
