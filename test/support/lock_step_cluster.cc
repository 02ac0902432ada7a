#include "test/support/lock_step_cluster.h"

#include <algorithm>
#include <cstdlib>

namespace hvd::engine::test {

std::vector<Tree> trees_of(const std::vector<Rank>& parents) {
  const int size = static_cast<int>(parents.size());
  std::vector<Tree> trees;
  for (Rank r = 0; r < size; ++r) {
    trees.push_back({r, size, parents[static_cast<std::size_t>(r)], {}, {}});
  }
  const auto tree = [&](Rank r) -> Tree& { return trees[static_cast<std::size_t>(r)]; };
  for (Rank r = 1; r < size; ++r) {
    tree(tree(r).parent).children.push_back(r);
    tree(tree(r).parent).below.emplace_back();
  }
  for (Rank r = 1; r < size; ++r) {  // ascending, so every list is ascending
    for (Rank child = r;; child = tree(child).parent) {
      Tree& above = tree(tree(child).parent);
      const auto at = std::lower_bound(above.children.begin(), above.children.end(), child);
      above.below[static_cast<std::size_t>(at - above.children.begin())].push_back(r);
      if (above.rank == 0) break;
    }
  }
  return trees;
}

std::vector<Tree> hosts_of(int size, int per_host) {
  std::vector<Rank> parents;
  for (Rank r = 0; r < size; ++r) {
    const int host = r / per_host;
    const Rank leader = r - r % per_host;
    parents.push_back(r != leader ? leader : host == 0 ? 0 : (host - 1) / kTreeFanOut * per_host);
  }
  return trees_of(parents);
}

int repetitions(int usual) {
  return std::getenv("HVD_TEST_LONG") != nullptr ? 10 * usual : usual;
}

std::string to_string(const Round& round) {
  return round.name + " round " + std::to_string(round.round) + " of epoch " +
         std::to_string(round.epoch);
}

namespace {

// What rank r brings to a round, in each byte: results tell whose values they are made of.
std::uint8_t brought(Rank r, const Round& round) {
  return static_cast<std::uint8_t>(std::hash<std::string>{}(to_string(round) + std::to_string(r)));
}

bool add_bytes(std::span<const Rank>, std::span<const void* const> inputs, DType dtype,
               std::int64_t numel, const Reduction&, void* result) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(numel) * size_of(dtype); ++i) {
    std::uint8_t sum = 0;
    for (const void* input : inputs) {
      sum = static_cast<std::uint8_t>(sum + static_cast<const std::uint8_t*>(input)[i]);
    }
    static_cast<std::uint8_t*>(result)[i] = sum;
  }
  return true;
}

}  // namespace

LockStepCluster::LockStepCluster(std::vector<Tree> trees, const NegotiationSettings& settings)
    : credit_(static_cast<std::size_t>(settings.batches_in_flight)) {
  for (Tree& tree : trees) {
    Node node;
    node.protocol = std::make_unique<RankProtocol>(tree, settings, 0, &add_bytes);
    node.tree = std::move(tree);
    sets_[kWorldSet].push_back(node.tree.rank);
    nodes_.push_back(std::move(node));
  }
  for (Rank r = 0; r < size(); ++r) flush(r);
}

// Without credit rank 0 says nothing about what becomes complete, but keeps the order; and credit
// of other sets than the world comes back from other ranks.
void LockStepCluster::remember(Rank r, const std::string& what) {
  Node& n = node(r);
  const std::size_t hash = std::hash<std::string>{}(what)*0x9e3779b97f4a7c15;
  if (r == 0 && (n.unfinished.size() >= credit_ || sets_.size() > 1)) close_history(r, 0);
  n.told += hash;
}

std::size_t LockStepCluster::history(Rank r) const {
  return (node(r).history ^ node(r).told) * 0x9e3779b97f4a7c15;
}

void LockStepCluster::close_history(Rank r, std::size_t said) {
  node(r).history = history(r) * 31 + said;
  node(r).told = 0;
}

Ticket LockStepCluster::new_ticket(Rank r, const Request& request) {
  Node& n = node(r);
  const Round id{request.name, n.epochs[request.set], n.rounds[request.set][request.name]++};
  n.submitted.push_back({id, request, {}, {}});
  return n.submitted.size();
}

void LockStepCluster::submit(Rank r, const Request& request, bool flush_now) {
  remember(r, "submit " + request.name);
  const Ticket ticket = new_ticket(r, request);
  node(r).last[request.name] = ticket;
  Bytes values(eager_bytes(request), std::byte{brought(r, node(r).submitted.back().id)});
  const bool sends = node(r).sends_values && values.size() <= rank(r).settings().eager_bytes;
  rank(r).submit(ticket, request, sends ? std::move(values) : Bytes{});
  if (flush_now) flush(r);
}

void LockStepCluster::join(Rank r, ProcessSetId set, bool joins_average, bool flush_now,
                           const std::string& name) {
  Request request;
  request.name = name;
  request.kind = CollectiveKind::kJoin;
  request.set = set;
  request.joins_average = joins_average;
  submit(r, request, false);
  node(r).joins[set] = node(r).submitted.size();
  if (flush_now) flush(r);
}

bool LockStepCluster::pending(Rank r, const std::string& name) const {
  const Node& n = node(r);
  const auto last = n.last.find(name);
  return last != n.last.end() &&
         n.submitted[last->second - 1].outcome == Submitted::Outcome::kPending;
}

bool LockStepCluster::pending_in(Rank r, ProcessSetId set) const {
  return std::any_of(node(r).submitted.begin(), node(r).submitted.end(), [&](const Submitted& one) {
    return one.request.set == set && one.outcome == Submitted::Outcome::kPending;
  });
}

int LockStepCluster::rounds(Rank r, const std::string& name) const {
  for (const auto& [set, rounds] : node(r).rounds) {
    const auto found = rounds.find(name);
    if (found != rounds.end()) return found->second;
  }
  return 0;
}

int LockStepCluster::epoch(Rank r, ProcessSetId set) const {
  const auto found = node(r).epochs.find(set);
  return found == node(r).epochs.end() ? 0 : found->second;
}

std::optional<ProcessSetId> LockStepCluster::added(Rank r, const std::string& name) const {
  const auto found = added_.find(name);
  if (found == added_.end() || !node(r).sets.contains(found->second)) return std::nullopt;
  return found->second;
}

std::uint64_t LockStepCluster::batches_of(Rank r) const {
  std::uint64_t count = 0;
  for (const auto& [number, record] : batches_) {
    const std::vector<Rank>& ranks = sets_.at(record.batch.key.set);
    if (std::binary_search(ranks.begin(), ranks.end(), r)) ++count;
  }
  return count;
}

void LockStepCluster::leave(Rank r) {
  remember(r, "leave");
  node(r).left = true;
  rank(r).leave();
  flush(r);
}

void LockStepCluster::kill(Rank r, bool lose_mail) {
  Node& n = node(r);
  n.dead = true;
  for (auto& [ends, mail] : links_) {
    if (ends.second == r || (ends.first == r && lose_mail)) mail.clear();
  }
  for (const Rank child : n.tree.children) node(child).deaths_to_see.insert(r);
  if (r != 0) node(n.tree.parent).deaths_to_see.insert(r);
}

void LockStepCluster::advance(Duration by) {
  now_ += by;
  for (Rank r = 0; r < size(); ++r) {
    if (node(r).dead) continue;
    close_history(r, 0);  // before or after makes a difference
    remember(r, "tick");
    rank(r).tick(now_);
    flush(r);
  }
}

std::vector<LockStepCluster::Event> LockStepCluster::events() const {
  std::vector<Event> all;
  for (const auto& [ends, mail] : links_) {
    const Node& to = node(ends.second);
    if (mail.empty() || to.dead || to.muted || node(ends.first).muted) continue;
    all.push_back({Event::Kind::kDeliver, ends.first, ends.second});
  }
  for (Rank r = 0; r < size(); ++r) {
    const Node& n = node(r);
    if (n.dead || n.muted) continue;
    if (!n.unfinished.empty() && !n.endless) all.push_back({Event::Kind::kFinish, r, r});
    for (const Rank dead : n.deaths_to_see) {
      const auto mail = links_.find({dead, r});  // what it sent is read first
      if (mail != links_.end() && !mail->second.empty()) continue;
      all.push_back({Event::Kind::kSeeDeath, dead, r});
    }
  }
  return all;
}

void LockStepCluster::perform(const Event& event) {
  Node& n = node(event.to);
  switch (event.kind) {
    case Event::Kind::kDeliver: {
      std::deque<Bytes>& mail = link(event.from, event.to);
      const Bytes message = std::move(mail.front());
      mail.pop_front();
      remember(event.to,
               std::to_string(event.from) + ":" +
                   std::string(reinterpret_cast<const char*>(message.data()), message.size()));
      n.protocol->receive(event.from, message);
      break;
    }
    case Event::Kind::kFinish:
      remember(event.to, "finish");
      n.protocol->finished(n.unfinished.front());
      n.unfinished.pop_front();
      break;
    case Event::Kind::kSeeDeath:
      remember(event.to, "death");
      n.deaths_to_see.erase(event.from);
      n.protocol->peer_lost(event.from,
                            {StatusCode::kTransport,
                             "rank " + std::to_string(event.from) + " is gone: its process ended"});
      break;
  }
  flush(event.to);
}

void LockStepCluster::settle(std::mt19937& random) {
  for (auto all = events(); !all.empty(); all = events()) perform(all[random() % all.size()]);
}

void LockStepCluster::flush(Rank r) {
  Node& n = node(r);
  std::size_t said = 0;
  bool more = true;
  while (more) {
    more = false;
    while (auto message = n.protocol->next_message()) {
      more = true;
      const auto* text = reinterpret_cast<const char*>(message->bytes.data());
      said = said * 31 + std::hash<std::string_view>{}({text, message->bytes.size()});
      ++n.sent;
      n.sent_bytes += message->bytes.size();
      if (!node(message->to).dead) link(r, message->to).push_back(std::move(message->bytes));
    }
    while (auto effect = n.protocol->next_effect()) {
      more = true;
      ++said;
      if (n.stopped) throw Violation("an effect after Stopped on rank " + std::to_string(r));
      std::visit([&](auto& e) { on(r, std::move(e)); }, *effect);
    }
  }
  if (said != 0) close_history(r, said);
}

Submitted& LockStepCluster::end(Rank r, Ticket ticket, Submitted::Outcome outcome) {
  Submitted& mine = node(r).submitted.at(ticket - 1);
  if (mine.outcome != Submitted::Outcome::kPending) {
    throw Violation(to_string(mine.id) + " ends twice on rank " + std::to_string(r));
  }
  mine.outcome = outcome;
  const auto [before, first] = outcomes_.try_emplace(mine.id, outcome);
  if (!first && before->second != outcome) {
    throw Violation(to_string(mine.id) + " ends differently by rank");
  }
  return mine;
}

Round LockStepCluster::run_member(Rank r, const RunBatch& batch, const BatchMember& member) {
  const Submitted& mine = end(r, member.ticket, Submitted::Outcome::kRan);
  if (!agree(*member.request, mine.request)) {
    throw Violation(mine.id.name + " runs as another request");
  }
  FusionKey key = fusion_key(mine.request);
  if (batch.key.arena != 0 && member.request->place != mine.request.place) {
    throw Violation(mine.id.name + " is reduced where it does not lie");
  }
  if (batch.key.arena == 0) key.arena = 0;  // somebody is elsewhere
  if (key != batch.key) throw Violation(mine.id.name + " runs in a batch of another kind");
  return mine.id;
}

void LockStepCluster::check_joined_or_not(Rank r, const RunBatch& batch) const {
  const std::vector<Rank>& ranks = sets_.at(batch.key.set);
  if (!std::binary_search(ranks.begin(), ranks.end(), r) || !node(r).sets.contains(batch.key.set)) {
    throw Violation("rank " + std::to_string(r) + " runs a batch of a set it is not in");
  }
  const auto neutral = std::count_if(batch.members.begin(), batch.members.end(),
                                     [](const BatchMember& member) { return member.ticket == 0; });
  const auto all = static_cast<std::ptrdiff_t>(batch.members.size());
  if (neutral != (joins(r, batch.key.set) && neutral > 0 ? all : 0)) {
    throw Violation("rank " + std::to_string(r) + " runs what it did not submit");
  }
}

void LockStepCluster::check_result(const RunBatch& batch, const std::vector<Round>& rounds) const {
  if (batch.result.empty()) return;
  std::uint8_t sum = 0;
  for (const Rank r : sets_.at(batch.key.set)) {
    sum = static_cast<std::uint8_t>(sum + brought(r, rounds.at(0)));
  }
  const Bytes expected(eager_bytes(*batch.members.front().request), std::byte{sum});
  if (rounds.size() != 1 || batch.result != expected) {
    throw Violation(to_string(rounds.at(0)) + " has the result of something else");
  }
}

void LockStepCluster::on(Rank r, RunBatch batch) {
  Node& n = node(r);
  check_joined_or_not(r, batch);
  if (batch.number < n.next_batch) throw Violation("batches out of order");
  n.next_batch = batch.number + 1;
  ++n.ran;
  // Only the credit that the lowest rank gives back changes what others do.
  if (r == sets_.at(batch.key.set).front()) {
    n.unfinished.push_back(batch.number);
  } else if (!n.endless) {
    n.protocol->finished(batch.number);
  }
  BatchRecord mine{std::move(batch), {}};
  for (BatchMember& member : mine.batch.members) {
    if (member.ticket == 0) continue;
    mine.rounds.push_back(run_member(r, mine.batch, member));
    member.ticket = 0;
  }
  check_result(mine.batch, mine.rounds);
  const auto [known, first] = batches_.try_emplace(mine.batch.number, mine);
  BatchRecord& theirs = known->second;
  if (first && !mine.batch.result.empty()) ++reduced_by_root_;
  if (first) return;
  if (theirs.rounds.empty()) theirs.rounds = mine.rounds;
  const auto same_request = [](const BatchMember& a, const BatchMember& b) {
    return *a.request == *b.request;
  };
  if ((!mine.rounds.empty() && theirs.rounds != mine.rounds) ||
      theirs.batch.bytes != mine.batch.bytes || theirs.batch.key != mine.batch.key ||
      theirs.batch.divisor != mine.batch.divisor || theirs.batch.result != mine.batch.result ||
      !std::equal(mine.batch.members.begin(), mine.batch.members.end(),
                  theirs.batch.members.begin(), theirs.batch.members.end(), same_request)) {
    throw Violation("batch " + std::to_string(theirs.batch.number) + " differs on rank " +
                    std::to_string(r));
  }
}

void LockStepCluster::on(Rank r, FailTicket fail) {
  end(r, fail.ticket, Submitted::Outcome::kRejected).why = std::move(fail.status);
}

void LockStepCluster::on(Rank r, SetAdded added) {
  Node& n = node(r);
  if (added.set != n.next_set++) throw Violation("sets are not numbered one after the other");
  n.sets.insert(added.set);
  const auto [known, first] = sets_.try_emplace(added.set, added.ranks);
  if (!first && known->second != added.ranks) throw Violation("a set of other ranks");
  if (added.ticket == 0) return;
  const Submitted& mine = end(r, added.ticket, Submitted::Outcome::kRan);
  if (mine.request.numbers != added.ranks) throw Violation("not the set that was asked for");
  if (added_.try_emplace(mine.id.name, added.set).first->second != added.set) {
    throw Violation(mine.id.name + " adds several sets");
  }
}

void LockStepCluster::on(Rank r, SetRemoved removed) {
  if (node(r).sets.erase(removed.set) == 0) throw Violation("an unknown set is removed");
  if (pending_in(r, removed.set)) throw Violation("a set is removed that is in use");
  if (removed.ticket == 0) return;
  const Submitted& mine = end(r, removed.ticket, Submitted::Outcome::kRan);
  if (removed_set(mine.request) != removed.set) throw Violation("another set is removed");
}

void LockStepCluster::on(Rank r, AllJoined joined) {
  const Submitted& mine = end(r, joined.ticket, Submitted::Outcome::kRan);
  const ProcessSetId set = mine.request.set;
  if (node(r).joins.erase(set) == 0) throw Violation("all joined, but not this rank");
  const std::pair key(set, node(r).epochs[set]++);
  if (last_joined_.try_emplace(key, joined.last).first->second != joined.last) {
    throw Violation("who joined last differs by rank");
  }
  node(r).rounds[set].clear();
}

void LockStepCluster::on(Rank r, ProbeRanks) {
  rank(r).status_reported(node(r).where);
}

void LockStepCluster::on(Rank r, Report report) {
  node(r).reports.push_back(report.text);
}

void LockStepCluster::on(Rank r, Stopped stopped) {
  node(r).stopped = std::move(stopped);
}

}  // namespace hvd::engine::test
