#include "test/support/lock_step_cluster.h"

#include <algorithm>
#include <cstdlib>

namespace hvd::test {

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

int repetitions(int usual) {
  return std::getenv("HVD_TEST_LONG") != nullptr ? 10 * usual : usual;
}

LockStepCluster::LockStepCluster(std::vector<Tree> trees, const NegotiationSettings& settings)
    : credit_(static_cast<std::size_t>(settings.batches_in_flight)) {
  for (Tree& tree : trees) {
    Node node;
    node.protocol = std::make_unique<RankProtocol>(tree, settings);
    node.tree = std::move(tree);
    nodes_.push_back(std::move(node));
  }
  for (Rank r = 0; r < size(); ++r) flush(r);
}

void LockStepCluster::remember(Rank r, const std::string& what) {
  Node& n = node(r);
  const std::size_t hash = std::hash<std::string>{}(what)*0x9e3779b97f4a7c15;
  // Without credit rank 0 says nothing about what becomes complete, but keeps the order.
  if (r == 0 && n.unfinished.size() >= credit_) close_history(r, 0);
  n.told += hash;
}

std::size_t LockStepCluster::history(Rank r) const {
  return (node(r).history ^ node(r).told) * 0x9e3779b97f4a7c15;
}

void LockStepCluster::close_history(Rank r, std::size_t said) {
  node(r).history = history(r) * 31 + said;
  node(r).told = 0;
}

void LockStepCluster::submit(Rank r, const Request& request, bool flush_now) {
  Node& n = node(r);
  remember(r, "submit " + request.name);
  const Ticket ticket = n.submitted.size();
  n.submitted.push_back({request.name, n.rounds[request.name]++, request, {}, {}});
  n.last[request.name] = ticket;
  n.protocol->submit(ticket, request);
  if (flush_now) flush(r);
}

bool LockStepCluster::pending(Rank r, const std::string& name) const {
  const Node& n = node(r);
  const auto last = n.last.find(name);
  return last != n.last.end() && n.submitted[last->second].outcome == Submitted::Outcome::kPending;
}

int LockStepCluster::rounds(Rank r, const std::string& name) const {
  const auto found = node(r).rounds.find(name);
  return found == node(r).rounds.end() ? 0 : found->second;
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

void LockStepCluster::end(Rank r, Ticket ticket, Submitted::Outcome outcome) {
  Submitted& mine = node(r).submitted.at(ticket);
  const std::string what = mine.name + " round " + std::to_string(mine.round);
  if (mine.outcome != Submitted::Outcome::kPending) {
    throw Violation(what + " ends twice on rank " + std::to_string(r));
  }
  mine.outcome = outcome;
  const auto [before, first] = outcomes_.try_emplace({mine.name, mine.round}, outcome);
  if (!first && before->second != outcome) throw Violation(what + " ends differently by rank");
}

void LockStepCluster::on(Rank r, RunBatch batch) {
  Node& n = node(r);
  if (batch.number != n.ran++) throw Violation("batches out of order");
  BatchRecord mine{std::move(batch), {}};
  for (BatchMember& member : mine.batch.members) {
    end(r, member.ticket, Submitted::Outcome::kRan);
    const Submitted& submitted = n.submitted.at(member.ticket);
    mine.rounds.emplace_back(submitted.name, submitted.round);
    member.ticket = 0;
    const Request& request = submitted.request;
    if (request.kind != mine.batch.kind || request.dtype != mine.batch.dtype) {
      throw Violation(submitted.name + " runs in a batch of another kind");
    }
    if (member.offset + request.bytes() > mine.batch.bytes) throw Violation("outside its buffer");
  }
  if (r == 0) n.unfinished.push_back(mine.batch.number);  // the others' credit is not counted
  if (mine.batch.number == batches_.size()) {
    batches_.push_back(std::move(mine));
    return;
  }
  const BatchRecord& theirs = batches_.at(mine.batch.number);
  const auto same_offset = [](const BatchMember& a, const BatchMember& b) {
    return a.offset == b.offset;
  };
  if (theirs.rounds != mine.rounds || theirs.batch.bytes != mine.batch.bytes ||
      theirs.batch.op != mine.batch.op || theirs.batch.root != mine.batch.root ||
      theirs.batch.divisor != mine.batch.divisor ||
      !std::equal(mine.batch.members.begin(), mine.batch.members.end(),
                  theirs.batch.members.begin(), theirs.batch.members.end(), same_offset)) {
    throw Violation("batch " + std::to_string(theirs.batch.number) + " differs on rank " +
                    std::to_string(r));
  }
}

void LockStepCluster::on(Rank r, FailTicket fail) {
  end(r, fail.ticket, Submitted::Outcome::kRejected);
  node(r).submitted.at(fail.ticket).why = std::move(fail.status);
}

void LockStepCluster::on(Rank r, Report report) {
  node(r).reports.push_back(report.text);
}

void LockStepCluster::on(Rank r, Stopped stopped) {
  node(r).stopped = std::move(stopped);
}

}  // namespace hvd::test
