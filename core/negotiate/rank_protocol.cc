#include "core/negotiate/rank_protocol.h"

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"
#include "core/negotiate/messages/message.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {
namespace {

void check(const NegotiationSettings& settings) {
  if (settings.batches_in_flight >= 1) return;
  throw InvalidArgumentError("RankProtocol: batches_in_flight is " +
                             std::to_string(settings.batches_in_flight) + ", at least 1 is needed");
}

}  // namespace

RankProtocol::RankProtocol(Tree tree, const NegotiationSettings& settings, std::uint32_t epoch,
                           ReduceHere reduce)
    : tree_(std::move(tree)),
      messages_(epoch),
      log_(settings, tree_.size),
      announcer_(tree_, log_),
      stalls_(tree_, announcer_.readiness(), log_.sets, log_.settings),
      replica_(tree_.rank, log_, announcer_, stalls_, effects_),
      check_decision_(tree_.rank, log_.cache, log_.sets, announcer_.submissions()),
      stopping_(tree_, messages_) {
  if (tree_.below.size() != tree_.children.size()) {
    throw InvalidArgumentError("RankProtocol: the tree does not say which ranks are below rank " +
                               std::to_string(tree_.rank));
  }
  check(settings);
  if (root()) sequencer_.emplace(settings, log_.cache, log_.sets, std::move(reduce));
}

bool RankProtocol::submit(Ticket ticket, const Request& request, Bytes values) {
  stopping_.check_submission(request.name);
  return announcer_.submit(ticket, request, std::move(values));
}

void RankProtocol::finished(std::uint64_t batch) {
  if (!stopping_.stopped()) replica_.finished(batch);
}

void RankProtocol::status_reported(const std::string& where) {
  if (!stopping_.stopped()) announcer_.report_status(replica_.asks(), where);
}

void RankProtocol::change_settings(const NegotiationSettings& settings) {
  check(settings);
  need_root("change_settings");
  sequencer_->change(settings);
}

void RankProtocol::expect_wait_for_root(TimePoint deadline) {
  need_root("expect_wait_for_root");
  stalls_.diagnosis().expect_wait_for_root(deadline);
}

void RankProtocol::need_root(const char* what) const {
  if (root()) return;
  throw InvalidArgumentError(std::string(what) + ": on rank 0 only, not on rank " +
                             std::to_string(tree_.rank));
}

void RankProtocol::receive(Rank from, std::span<const std::byte> message) {
  ByteReader in(message);
  const auto header = deserialize<MessageHeader>(in);
  if (header.epoch != messages_.epoch()) return;
  if (from == tree_.parent) stalls_.heard_parent();
  switch (header.kind) {
    case MessageKind::kAnnouncement:
      return receive_announcement(from, in);
    case MessageKind::kDecision:
      if (root() || from != tree_.parent) ByteReader::malformed("a decision not from the parent");
      return receive_decision(message, in);
    case MessageKind::kAbortReport:
      if (!root()) ByteReader::malformed("an abort report not to rank 0");
      return receive_abort(in);
    case MessageKind::kAbortBroadcast:
      return receive_abort(in);
    case MessageKind::kConfirm:
      in.expect_end();
      if (!announcer_.readiness().reporter_of(from)) {
        ByteReader::malformed("a confirmation not from a child");
      }
      return stopping_.lost(from);
    case MessageKind::kProbe:
      return receive_probe(from, in);
    case MessageKind::kObservation:
      ByteReader::malformed("an observation given to the protocol");
  }
}

void RankProtocol::receive_announcement(Rank from, ByteReader& in) {
  const auto reporter = announcer_.readiness().reporter_of(from);
  if (!reporter) ByteReader::malformed("an announcement not from a child");
  serialize(in, incoming_);
  announcer_.check(incoming_, *reporter);
  if (stopping_.stopped()) return;
  // A child has waited long: so has this node, whether it knew the name or not.
  for (const MissingRanks& absence : incoming_.absences) {
    if (!announcer_.readiness().add(absence, *reporter, incoming_.applied)) continue;
    stalls_.tell_absence(absence.name, absence.held, announcer_.outbox().absences);
  }
  announcer_.take(incoming_, *reporter);
}

void RankProtocol::receive_decision(std::span<const std::byte> message, ByteReader& in) {
  serialize(in, decision_);
  if (stopping_.stopped()) return;
  if (decision_.number != log_.applied + 1) ByteReader::malformed("a decision out of turn");
  check_decision_(decision_);
  flush();  // under the number that was applied when it became ready
  for (const Rank child : tree_.children) messages_.forward(child, message);
  apply();
}

void RankProtocol::receive_abort(ByteReader& in) {
  const auto notice = deserialize<AbortNotice>(in);
  in.expect_end();
  if (stopping_.stopped()) return;
  // A rank that is lost to one may be there, with no other to hear of it from.
  if (root() && notice.lost > 0 && notice.lost < tree_.size) {
    messages_.send(notice.lost, MessageKind::kAbortBroadcast, notice);
  }
  abort(notice);
}

void RankProtocol::receive_probe(Rank from, ByteReader& in) {
  in.expect_end();
  if (!root() && from == tree_.parent) return;
  if (!announcer_.readiness().reporter_of(from))
    ByteReader::malformed("a probe not from parent or child");
  if (!stopping_.stopped()) messages_.send(from, MessageKind::kProbe);
}

void RankProtocol::flush() {
  if (stopping_.stopped()) return;
  Announcement& outbox = announcer_.outbox();
  if (!root()) {
    if (outbox.empty()) return;
    outbox.applied = log_.applied;
    messages_.send(tree_.parent, MessageKind::kAnnouncement, outbox);
    outbox.clear();
    return;
  }
  while (!stopping_.stopped() && !(outbox.empty() && sequencer_->idle())) {
    for (const Leaving& one : outbox.leaving) sequencer_->leave(one);
    for (RankStatus& rank_status : outbox.rank_statuses) {
      stalls_.diagnosis().take(std::move(rank_status));
    }
    sequencer_->take(outbox);
    decision_.clear();
    sequencer_->decide(now_, decision_);
    if (decision_.steps.empty()) return;
    decision_.number = log_.applied + 1;
    messages_.send_all(tree_.children, MessageKind::kDecision, decision_);
    apply();
  }
}

void RankProtocol::apply() {
  replica_.apply(decision_);
  if (replica_.stopped()) stop(*replica_.stopped(), true);
}

std::optional<OutgoingMessage> RankProtocol::next_message() {
  if (messages_.empty()) flush();
  return messages_.next();
}

std::optional<Effect> RankProtocol::next_effect() {
  if (root()) flush();
  return effects_.pop();
}

void RankProtocol::leave() {
  if (!stopping_.leave()) return;
  announcer_.outbox().leaving.push_back({tree_.rank, announcer_.submissions().count()});
}

void RankProtocol::fail(const Status& why) {
  if (stopping_.stopped()) return;
  const AbortNotice notice{why, -1};
  stopping_.report(notice);
  abort(notice);
}

void RankProtocol::peer_lost(Rank rank, const Status& why) {
  stopping_.lost(rank);
  if (stopping_.stopped()) return;
  const AbortNotice notice{{StatusCode::kTransport, why.message()}, rank};
  if (rank != 0) stopping_.report(notice);
  // Parent and children only go after this rank has stopped, so a neighbour died. Any other rank
  // may have left in order while the stop is still on its way here: rank 0 knows.
  const bool neighbour =
      rank == tree_.parent || announcer_.readiness().reporter_of(rank).has_value();
  if (root() || rank == 0 || neighbour) abort(notice);
}

void RankProtocol::abort(const AbortNotice& notice) {
  if (notice.lost >= 0) stopping_.lost(notice.lost);
  stopping_.broadcast(notice);
  stop(notice.why, false);
}

void RankProtocol::stop(const Status& why, bool orderly) {
  stopping_.stop(why);
  Submissions::Pending longest = announcer_.submissions().longest_pending(log_.cache);
  effects_.push(Stopped{why, orderly, std::move(longest.name), longest.number});
}

// What rank 0 would do; what it hears of it, if it goes on one day, is in fail().
void RankProtocol::give_up_parent(const Status& why) {
  for (Rank rank = 1; tree_.parent == 0 && rank < tree_.size; ++rank) {
    if (rank != tree_.rank) {
      messages_.send(rank, MessageKind::kAbortBroadcast, AbortNotice{why, -1});
    }
  }
  fail(why);
}

StallWatch::Load RankProtocol::load() const {
  const Submissions& submissions = announcer_.submissions();
  const bool waits =
      replica_.running() > 0 || submissions.pending() > 0 || !submissions.joins().empty();
  StallWatch::Load load{.batches = {}, .waits = waits};
  if (sequencer_) load.batches = sequencer_->running();
  return load;
}

void RankProtocol::tick(TimePoint now) {
  now_ = std::max(now_, now);
  if (stopping_.stopped()) return;
  StallWatch::Findings found = stalls_.tick(now_, load(), announcer_.outbox().absences);
  if (found.ask) sequencer_->ask();
  if (found.probe) messages_.send(tree_.parent, MessageKind::kProbe);
  for (std::string& text : found.reports) effects_.push(Report{std::move(text)});
  if (found.hopeless) abort({*found.hopeless, -1});
  if (found.parent_silent) give_up_parent(*found.parent_silent);
}

std::optional<TimePoint> RankProtocol::next_deadline() const {
  if (stopping_.stopped()) return std::nullopt;
  const auto stall = stalls_.next_deadline(load());
  return sequencer_ ? earlier(stall, sequencer_->next_deadline()) : stall;
}

}  // namespace hvd::engine
