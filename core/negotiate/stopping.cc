// How a job ends: ranks that leave, ranks that cannot go on, ranks that are gone or wait too long.

#include <algorithm>

#include "core/negotiate/rank_protocol_impl.h"

namespace hvd {

void RankProtocol::Impl::leave() {
  if (leaving_ || stopped_) return;
  leaving_ = true;
  outbox_.leaving.push_back({tree_.rank, submissions_.count()});
}

void RankProtocol::Impl::fail(const Status& why) {
  if (stopped_) return;
  const AbortNotice emergency{why, -1};
  if (!root()) send(0, MessageKind::kAbortReport, emergency);
  halt(emergency);
}

void RankProtocol::Impl::peer_lost(Rank rank, const Status& why) {
  lost(rank);
  if (stopped_) return;
  const AbortNotice emergency{{StatusCode::kTransport, why.message()}, rank};
  if (!root() && rank != 0) send(0, MessageKind::kAbortReport, emergency);
  // Parent and children only go after this rank has stopped, so a neighbour died. Any other rank
  // may have left in order while the stop is still on its way here: rank 0 knows.
  const bool neighbour = rank == tree_.parent || reporter_of(rank).has_value();
  if (root() || rank == 0 || neighbour) halt(emergency);
}

void RankProtocol::Impl::receive_alarm(ByteReader& in) {
  const AbortNotice emergency = read_emergency(in);
  in.expect_end();
  if (stopped_) return;
  halt(emergency);
}

// Stops here and tells the others: rank 0 everybody, another rank its children (rank 0 may be
// dead).
void RankProtocol::Impl::halt(const AbortNotice& emergency) {
  if (emergency.lost >= 0) lost(emergency.lost);
  if (root()) {
    for (Rank rank = 1; rank < tree_.size; ++rank) {
      if (rank != emergency.lost) send(rank, MessageKind::kAbortBroadcast, emergency);
    }
  } else {
    for (const Rank child : tree_.children) {
      if (child != emergency.lost) send(child, MessageKind::kAbortBroadcast, emergency);
    }
  }
  stop(emergency.why, false);
}

void RankProtocol::Impl::stop(const Status& why, bool orderly) {
  stopped_ = why;
  Submissions::Pending longest = submissions_.longest_pending(cache_);
  effects_.push(Stopped{why, orderly, std::move(longest.name), longest.number});
  if (root() || parent_gone_) return;
  send(tree_.parent, MessageKind::kConfirm);
}

void RankProtocol::Impl::send(Rank to, MessageKind kind) {
  OutgoingMessage message{to, {}};
  ByteWriter out(message.bytes);
  write(out, MessageHeader{kind, epoch_});
  messages_.push(std::move(message));
}

// `rank` needs not be waited for: it confirmed the stop, or it is gone.
void RankProtocol::Impl::lost(Rank rank) {
  if (const auto child = reporter_of(rank)) gone_[*child - 1] = true;
  if (!root() && rank == tree_.parent) parent_gone_ = true;
}

bool RankProtocol::Impl::waits() const {
  return running_ > 0 || submissions_.pending() > 0 || !submissions_.joins().empty();
}

StallWatch::Load RankProtocol::Impl::load() const {
  StallWatch::Load load{.batches = {}, .waits = waits()};
  if (sequencer_) load.batches = sequencer_->running();
  return load;
}

void RankProtocol::Impl::tick(TimePoint now) {
  now_ = std::max(now_, now);
  if (stopped_) return;
  StallWatch::Findings found = stalls_.tick(now_, load(), outbox_.absences);
  if (found.ask) sequencer_->ask();
  if (found.probe) send(tree_.parent, MessageKind::kProbe);
  for (std::string& text : found.reports) effects_.push(Report{std::move(text)});
  if (found.hopeless) halt({*found.hopeless, -1});
  if (found.parent_silent) give_up_parent(*found.parent_silent);
}

std::optional<TimePoint> RankProtocol::Impl::next_deadline() const {
  if (stopped_) return std::nullopt;
  const auto stall = stalls_.next_deadline(load());
  const auto gap = sequencer_ ? sequencer_->next_deadline() : std::nullopt;
  return stall && gap ? std::min(*stall, *gap) : stall ? stall : gap;
}

// What rank 0 would do; what it hears of it, if it goes on one day, is in fail().
void RankProtocol::Impl::give_up_parent(const Status& why) {
  for (Rank rank = 1; tree_.parent == 0 && rank < tree_.size; ++rank) {
    if (rank != tree_.rank) send(rank, MessageKind::kAbortBroadcast, AbortNotice{why, -1});
  }
  fail(why);
}

void RankProtocol::Impl::receive_probe(Rank from, ByteReader& in) {
  in.expect_end();
  if (!root() && from == tree_.parent) return;
  if (!reporter_of(from)) ByteReader::malformed("a probe not from parent or child");
  if (!stopped_) send(from, MessageKind::kProbe);
}

bool RankProtocol::Impl::finished_leaving() const {
  return stopped_ && std::all_of(gone_.begin(), gone_.end(), [](bool gone) { return gone; });
}

}  // namespace hvd
