#include "core/negotiate/rank_protocol.h"

#include <algorithm>

#include "core/negotiate/messages/request.h"
#include "core/negotiate/rank_protocol_impl.h"

namespace hvd {

RankProtocol::Impl::Impl(Tree tree, const NegotiationSettings& settings, std::uint32_t epoch)
    : tree_(std::move(tree)),
      settings_(settings),
      epoch_(epoch),
      sets_(tree_.size),
      check_decision_(tree_.rank, cache_, sets_, submissions_),
      readiness_(tree_, cache_, sets_),
      stalls_(tree_, readiness_, sets_, settings_),
      gone_(tree_.children.size(), false) {
  if (tree_.below.size() != tree_.children.size()) {
    throw InvalidArgumentError("RankProtocol: the tree does not say which ranks are below rank " +
                               std::to_string(tree_.rank));
  }
  check(settings_);
  if (root()) sequencer_.emplace(settings_, cache_, sets_);
}

void RankProtocol::Impl::check(const NegotiationSettings& settings) {
  if (settings.batches_in_flight >= 1) return;
  throw InvalidArgumentError("RankProtocol: batches_in_flight is " +
                             std::to_string(settings.batches_in_flight) + ", at least 1 is needed");
}

void RankProtocol::Impl::submit(Ticket ticket, const Request& request) {
  check_submission(request);
  if (request.kind == CollectiveKind::kJoin) return join(ticket, request);
  const auto slot = cache_.find_next(request.name);
  if ((slot && submissions_.has(*slot)) || submissions_.find(request.name) != nullptr) {
    throw InvalidArgumentError(readable_name(request.name) + " is in flight already");
  }
  if (slot && cache_.request(*slot).set != request.set) {
    throw InvalidArgumentError(readable_name(request.name) + " belongs to " +
                               describe_set(cache_.request(*slot).set) + ", not to " +
                               describe_set(request.set));
  }
  last_submitted_ = request.name;
  if (slot && submissions_.stands_for(*slot, cache_.request(*slot), request)) {
    submissions_.add(*slot, request.set, ticket);
    readiness_.add(*slot, ReadinessTracker::kSelf, applied_, outbox_);
  } else {
    submissions_.add(request, ticket);
    announce(request);
  }
}

void RankProtocol::Impl::check_submission(const Request& request) const {
  if (stopped_) stopped_->throw_if_error();
  if (leaving_) throw AbortedError(readable_name(request.name) + ": this rank has shut down");
  const std::string fault = fault_here(request);
  if (fault.empty()) return;
  throw InvalidArgumentError(std::string(name_of(request.kind)) + " \"" + request.name +
                             "\": " + fault);
}

// Why this rank may not submit this now; empty when it may.
std::string RankProtocol::Impl::fault_here(const Request& request) const {
  std::string fault = fault_of(request, sets_);
  if (!fault.empty()) return fault;
  const auto set = [&] { return describe_set(request.set); };
  const auto rank = [&] { return "rank " + std::to_string(tree_.rank); };
  if (!sets_.has(request.set, tree_.rank)) return rank() + " is not in " + set();
  if (submissions_.removes(request.set)) return set() + " is being removed";
  if (submissions_.joins().contains(request.set)) {
    return rank() + " has joined " + set() + " and waits for the others";
  }
  if (request.kind != CollectiveKind::kRemoveSet) return "";
  const ProcessSetId removed = removed_set(request);
  if (submissions_.removes(removed)) return describe_set(removed) + " is being removed already";
  if (submissions_.pending_in(removed) > 0 || submissions_.joins().contains(removed)) {
    return rank() + " has something pending in " + describe_set(removed);
  }
  return "";
}

void RankProtocol::Impl::join(Ticket ticket, const Request& request) {
  last_submitted_ = request.name;
  submissions_.join(request.set, {ticket, request.joins_average, false});
  announce_joins();
}

void RankProtocol::Impl::announce(const Request& request) {
  readiness_.add(Variants{{request, tree_.rank, 1}}, ReadinessTracker::kSelf, applied_, outbox_);
}

void RankProtocol::Impl::announce_joins() {
  for (const Joining& joining : submissions_.take_joins(tree_.rank)) {
    outbox_.joined.push_back(joining);
  }
}

void RankProtocol::Impl::finished(std::uint64_t batch) {
  if (stopped_) return;
  if (running_ > 0) --running_;
  if (std::erase(credits_to_return_, batch) != 0) outbox_.finished.push_back(batch);
}

void RankProtocol::Impl::change_settings(const NegotiationSettings& settings) {
  check(settings);
  need_root("change_settings");
  sequencer_->change(settings);
}

void RankProtocol::Impl::expect_wait_for_root(TimePoint deadline) {
  need_root("expect_wait_for_root");
  stalls_.diagnosis().expect_wait_for_root(deadline);
}

void RankProtocol::Impl::status_reported(const std::string& where) {
  if (stopped_) return;
  Submissions::Pending longest = submissions_.longest_pending(cache_);
  RankStatus rank_status{.rank = tree_.rank,
                         .ask = asks_,
                         .submissions = submissions_.count(),
                         .last_submitted = last_submitted_,
                         .pending = submissions_.pending(),
                         .waits_for = std::move(longest.name),
                         .waits_number = longest.number,
                         .joins = {},
                         .where = where};
  for (const auto& [set, join] : submissions_.joins()) rank_status.joins.push_back(set);
  outbox_.rank_statuses.push_back(std::move(rank_status));
}

void RankProtocol::Impl::need_root(const char* what) const {
  if (root()) return;
  throw InvalidArgumentError(std::string(what) + ": on rank 0 only, not on rank " +
                             std::to_string(tree_.rank));
}

void RankProtocol::Impl::receive(Rank from, std::span<const std::byte> message) {
  ByteReader in(message);
  const MessageHeader header = read_header(in);
  if (header.epoch != epoch_) return;
  if (from == tree_.parent) stalls_.heard_parent();
  switch (header.kind) {
    case MessageKind::kAnnouncement:
      return receive_announcement(from, in);
    case MessageKind::kDecision:
      if (root() || from != tree_.parent) ByteReader::malformed("a decision not from the parent");
      return receive_decision(message, in);
    case MessageKind::kAbortReport:
      if (!root()) ByteReader::malformed("an alarm for a rank that is not rank 0");
      return receive_alarm(in);
    case MessageKind::kAbortBroadcast:
      return receive_alarm(in);
    case MessageKind::kConfirm:
      in.expect_end();
      if (!reporter_of(from)) ByteReader::malformed("a confirmation not from a child");
      lost(from);
      return;
    case MessageKind::kProbe:
      return receive_probe(from, in);
    case MessageKind::kObservation:
      ByteReader::malformed("an observation given to the protocol");
  }
}

std::optional<ReadinessTracker::Reporter> RankProtocol::Impl::reporter_of(Rank child) const {
  const auto found = std::lower_bound(tree_.children.begin(), tree_.children.end(), child);
  if (found == tree_.children.end() || *found != child) return std::nullopt;
  return static_cast<ReadinessTracker::Reporter>(found - tree_.children.begin()) + 1;
}

void RankProtocol::Impl::check(const Variants& variants, ReadinessTracker::Reporter from) const {
  std::int64_t count = 0;
  for (const Variant& variant : variants) {
    count += variant.count;
    if (!fault_of(variant.request, sets_).empty()) {
      ByteReader::malformed("a request that cannot run");
    }
    if (!sets_.expects(variant.request.set, variant.lowest)) {
      ByteReader::malformed("announced by a rank that does not belong to the process set");
    }
  }
  const Request& request = variants.front().request;
  if (count != readiness_.weight(from, request.set)) {
    ByteReader::malformed("announced by too few or too many");
  }
  if (variants.size() == 2 && agree(request, variants[1].request)) {
    ByteReader::malformed("one variant twice");
  }
  if (readiness_.set_of(request.name).value_or(request.set) != request.set) {
    ByteReader::malformed("a name of another process set");
  }
}

void RankProtocol::Impl::check(const Joining& joining, ReadinessTracker::Reporter from) const {
  const std::vector<Rank>& below = tree_.below[from - 1];
  if (!std::binary_search(below.begin(), below.end(), joining.rank) || !sets_.known(joining.set) ||
      !sets_.expects(joining.set, joining.rank)) {
    ByteReader::malformed("a malformed join");
  }
}

void RankProtocol::Impl::check(const Announcement& announcement,
                               ReadinessTracker::Reporter from) const {
  if (announcement.applied > applied_) ByteReader::malformed("applied what is not decided");
  for (const SlotNumber slot : announcement.slots) {
    if (readiness_.is_void(slot, announcement.applied)) continue;
    if (!cache_.defined(slot) || readiness_.weight(from, cache_.request(slot).set) == 0) {
      ByteReader::malformed("unknown slot");
    }
  }
  for (const Variants& variants : announcement.names) check(variants, from);
  for (const Joining& joining : announcement.joined) check(joining, from);
  const auto outside = [&](Rank rank) { return rank >= tree_.size; };
  for (const MissingRanks& absence : announcement.absences) {
    if (!sets_.known(absence.set)) ByteReader::malformed("unknown process set");
    if (readiness_.set_of(absence.name).value_or(absence.set) != absence.set) {
      ByteReader::malformed("a name of another process set");
    }
    if (std::any_of(absence.missing.begin(), absence.missing.end(), outside)) {
      ByteReader::malformed("rank out of range");
    }
  }
  for (const RankStatus& rank_status : announcement.rank_statuses) {
    if (outside(rank_status.rank)) ByteReader::malformed("rank out of range");
  }
  for (const Leaving& one : announcement.leaving) {
    if (outside(one.rank)) ByteReader::malformed("rank out of range");
  }
}

void RankProtocol::Impl::receive_announcement(Rank from, ByteReader& in) {
  const auto reporter = reporter_of(from);
  if (!reporter) ByteReader::malformed("an announcement not from a child");
  read_announcement(in, incoming_);
  check(incoming_, *reporter);
  if (stopped_) return;
  const std::uint64_t applied = incoming_.applied;
  readiness_.child_applied(*reporter, applied);
  for (const MissingRanks& absence : incoming_.absences) take(absence, *reporter);
  for (const SlotNumber slot : incoming_.slots) readiness_.add(slot, *reporter, applied, outbox_);
  for (const Variants& variants : incoming_.names) {
    readiness_.add(variants, *reporter, applied, outbox_);
  }
  const auto pass_on = [](auto& into, const auto& from_below) {
    into.insert(into.end(), from_below.begin(), from_below.end());
  };
  pass_on(outbox_.leaving, incoming_.leaving);
  pass_on(outbox_.joined, incoming_.joined);
  pass_on(outbox_.finished, incoming_.finished);
  for (RankStatus& rank_status : incoming_.rank_statuses)
    outbox_.rank_statuses.push_back(std::move(rank_status));
}

// A child has waited long: so has this node, whether it knew the name or not.
void RankProtocol::Impl::take(const MissingRanks& absence, ReadinessTracker::Reporter from) {
  if (!readiness_.add(absence, from, incoming_.applied)) return;
  stalls_.tell_absence(absence.name, absence.held, outbox_.absences);
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
    for (const Leaving& one : outbox_.leaving) sequencer_->leave(one);
    for (RankStatus& rank_status : outbox_.rank_statuses)
      stalls_.diagnosis().take(std::move(rank_status));
    sequencer_->take(outbox_);
    decision_.clear();
    sequencer_->decide(now_, decision_);
    if (decision_.steps.empty()) return;
    decision_.number = applied_ + 1;
    for (const Rank child : tree_.children) send(child, MessageKind::kDecision, decision_);
    apply(decision_);
  }
}

void RankProtocol::Impl::reuse(OutgoingMessage&& sent) {
  if (spare_bytes_.size() == kSpares) return;
  sent.bytes.clear();
  spare_bytes_.push_back(std::move(sent.bytes));
}

void RankProtocol::Impl::reuse(RunBatch&& done) {
  if (spare_members_.size() == kSpares) return;
  done.members.clear();
  spare_members_.push_back(std::move(done.members));
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
void RankProtocol::status_reported(const std::string& where) {
  impl_->status_reported(where);
}
void RankProtocol::expect_wait_for_root(TimePoint deadline) {
  impl_->expect_wait_for_root(deadline);
}
void RankProtocol::change_settings(const NegotiationSettings& settings) {
  impl_->change_settings(settings);
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
void RankProtocol::reuse(OutgoingMessage&& sent) {
  impl_->reuse(std::move(sent));
}
void RankProtocol::reuse(RunBatch&& done) {
  impl_->reuse(std::move(done));
}
const NegotiationSettings& RankProtocol::settings() const {
  return impl_->settings();
}

std::optional<TimePoint> RankProtocol::next_deadline() const {
  return impl_->next_deadline();
}
bool RankProtocol::finished_leaving() const {
  return impl_->finished_leaving();
}

}  // namespace hvd
