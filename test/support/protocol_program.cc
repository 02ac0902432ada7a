#include "test/support/protocol_program.h"

#include <algorithm>

namespace hvd::engine::test {
namespace {

using Outcome = Submitted::Outcome;

// The ranks of a set, as its definition says (they agree, or there is no such set).
std::vector<Rank> ranks_of(const Program& program, const std::string& label) {
  std::vector<Rank> ranks;
  if (label.empty()) {
    for (Rank r = 0; r < program.size(); ++r) ranks.push_back(r);
    return ranks;
  }
  for (const auto& sets : program.ranks) {
    for (const Epoch& epoch : sets.at("")) {
      const auto added = epoch.names.find("add " + label);
      if (added != epoch.names.end()) return added->second.front().numbers;
    }
  }
  return ranks;
}

const Epoch* epoch_of(const Program& program, Rank r, const std::string& label, int epoch) {
  const auto& sets = program.ranks[static_cast<std::size_t>(r)];
  const auto found = sets.find(label);
  const auto at = static_cast<std::size_t>(epoch);
  return found == sets.end() || at >= found->second.size() ? nullptr : &found->second[at];
}

Expected lock_step_outcome(const Program& program, const std::string& label, const Round& id) {
  const Request* first = nullptr;
  bool all_agree = true;
  int divisor = 0;
  bool flagged = false;
  std::vector<Rank> joined;
  for (const Rank r : ranks_of(program, label)) {
    const Epoch* epoch = epoch_of(program, r, label, id.epoch);
    if (epoch == nullptr) return {};
    const auto rounds = epoch->names.find(id.name);
    if (rounds == epoch->names.end() ||
        static_cast<std::size_t>(id.round) >= rounds->second.size()) {
      if (!epoch->joins) return {};
      joined.push_back(r);
      divisor += epoch->joins_average ? 1 : 0;
      continue;
    }
    const Request& request = rounds->second[static_cast<std::size_t>(id.round)];
    if (first == nullptr) first = &request;
    all_agree = all_agree && agree(request, *first);
    flagged = flagged || request.flagged;
    ++divisor;
  }
  if (first == nullptr) return {};  // there is no such set
  const bool root_joined = needs_root(first->kind) &&
                           std::find(joined.begin(), joined.end(), first->root) != joined.end();
  const bool in_use = first->kind == CollectiveKind::kRemoveSet && !joined.empty();
  return {all_agree && !root_joined && !in_use ? Outcome::kRan : Outcome::kRejected, divisor,
          flagged};
}

// A join ends when all have joined.
Outcome join_outcome(const Program& program, const std::string& label, int epoch) {
  for (const Rank r : ranks_of(program, label)) {
    const Epoch* mine = epoch_of(program, r, label, epoch);
    if (mine == nullptr || !mine->joins) return Outcome::kPending;
  }
  return Outcome::kRan;
}

std::string join_name(const std::string& label) {
  return "join " + label;
}

void check_outcome(const Outcomes& expected, const Submitted& one, Rank r) {
  if (expected.at(one.id).outcome == one.outcome) return;
  throw Violation(to_string(one.id) + " on rank " + std::to_string(r) + " ended as " +
                  std::to_string(static_cast<int>(one.outcome)));
}

void check_batches(const Outcomes& expected, const LockStepCluster& cluster) {
  for (const auto& [number, record] : cluster.batches()) {
    for (std::size_t i = 0; i < record.rounds.size(); ++i) {
      const Round& id = record.rounds[i];
      if (expected.at(id).divisor != record.batch.divisor) {
        throw Violation(to_string(id) + " is divided by " + std::to_string(record.batch.divisor));
      }
      if (expected.at(id).flagged != record.batch.members[i].request->flagged) {
        throw Violation(to_string(id) +
                        (expected.at(id).flagged ? " lost its flag" : " is flagged"));
      }
    }
  }
}

// How many submissions this rank makes in all.
std::size_t submissions_of(const Program& program, Rank r) {
  std::size_t count = 0;
  for (const auto& [label, epochs] : program.ranks[static_cast<std::size_t>(r)]) {
    for (const Epoch& epoch : epochs) {
      for (const auto& [name, rounds] : epoch.names) count += rounds.size();
      count += epoch.joins ? 1 : 0;
    }
  }
  return count;
}

std::optional<ProcessSetId> set_of(const LockStepCluster& cluster, Rank r,
                                   const std::string& label) {
  return label.empty() ? kWorldSet : cluster.added(r, "add " + label);
}

// Everything that the rank has to do in this epoch but to join is submitted.
bool through_with(const Epoch& epoch, Rank r, const LockStepCluster& cluster) {
  return std::all_of(epoch.names.begin(), epoch.names.end(), [&](const auto& entry) {
    return static_cast<std::size_t>(cluster.rounds(r, entry.first)) >= entry.second.size();
  });
}

bool through_with_set(const Program& program, Rank r, const std::string& label,
                      const LockStepCluster& cluster) {
  const auto set = set_of(cluster, r, label);
  if (!set || cluster.pending_in(r, *set)) return false;
  const Epoch* epoch = epoch_of(program, r, label, cluster.epoch(r, *set));
  return epoch == nullptr || (!epoch->joins && through_with(*epoch, r, cluster));
}

const std::string kRemove = "remove ";

bool may_submit(const Program& program, Rank r, const std::string& name, std::size_t rounds,
                const LockStepCluster& cluster) {
  if (static_cast<std::size_t>(cluster.rounds(r, name)) >= rounds || cluster.pending(r, name)) {
    return false;
  }
  return !name.starts_with(kRemove) ||
         through_with_set(program, r, name.substr(kRemove.size()), cluster);
}

void add_possible(const Program& program, Rank r, const std::string& label,
                  const LockStepCluster& cluster, std::vector<Submission>& all) {
  const auto set = set_of(cluster, r, label);
  if (!set || cluster.joins(r, *set) || cluster.pending(r, kRemove + label)) return;
  const Epoch* epoch = epoch_of(program, r, label, cluster.epoch(r, *set));
  if (epoch == nullptr) return;
  for (const auto& [name, rounds] : epoch->names) {
    if (may_submit(program, r, name, rounds.size(), cluster)) all.push_back({r, label, name});
  }
  if (epoch->joins && through_with(*epoch, r, cluster)) all.push_back({r, label, ""});
}

}  // namespace

Outcomes lock_step_outcomes(const Program& program) {
  Outcomes outcomes;
  for (const auto& rank : program.ranks) {
    for (const auto& [label, epochs] : rank) {
      for (std::size_t e = 0; e < epochs.size(); ++e) {
        if (epochs[e].joins) {
          const Round id{join_name(label), static_cast<int>(e), 0};
          outcomes[id] = {join_outcome(program, label, id.epoch)};
        }
        for (const auto& [name, rounds] : epochs[e].names) {
          for (std::size_t i = 0; i < rounds.size(); ++i) {
            const Round id{name, static_cast<int>(e), static_cast<int>(i)};
            outcomes[id] = lock_step_outcome(program, label, id);
          }
        }
      }
    }
  }
  return outcomes;
}

std::vector<Submission> possible_submissions(const Program& program,
                                             const LockStepCluster& cluster) {
  std::vector<Submission> all;
  for (Rank r = 0; r < program.size(); ++r) {
    if (cluster.dead(r) || cluster.stopped(r) || cluster.left(r)) continue;
    for (const auto& [label, epochs] : program.ranks[static_cast<std::size_t>(r)]) {
      add_possible(program, r, label, cluster, all);
    }
  }
  return all;
}

void submit(const Program& program, const Submission& submission, LockStepCluster& cluster,
            bool flush) {
  const auto& [rank, label, name] = submission;
  const ProcessSetId set = *set_of(cluster, rank, label);
  const Epoch& epoch = *epoch_of(program, rank, label, cluster.epoch(rank, set));
  if (name.empty()) return cluster.join(rank, set, epoch.joins_average, flush, join_name(label));
  Request request = epoch.names.at(name).at(static_cast<std::size_t>(cluster.rounds(rank, name)));
  request.set = set;
  if (request.kind == CollectiveKind::kRemoveSet) {
    const auto removed = set_of(cluster, rank, name.substr(kRemove.size()));
    request.numbers = {static_cast<std::int32_t>(*removed)};
  }
  cluster.submit(rank, request, flush);
}

void check_outcomes(const Program& program, const LockStepCluster& cluster) {
  const Outcomes expected = lock_step_outcomes(program);
  for (Rank r = 0; r < cluster.size(); ++r) {
    const std::size_t due = submissions_of(program, r);
    if (cluster.submitted(r).size() != due) {
      throw Violation("deadlock: rank " + std::to_string(r) + " got through " +
                      std::to_string(cluster.submitted(r).size()) + " of " + std::to_string(due) +
                      " submissions");
    }
    for (const Submitted& one : cluster.submitted(r)) check_outcome(expected, one, r);
    if (cluster.batches_run(r) != cluster.batches_of(r)) {
      throw Violation("rank " + std::to_string(r) + " did not run every batch");
    }
  }
  check_batches(expected, cluster);
}

void check_stopped(const Program& program, const LockStepCluster& cluster) {
  const Outcomes expected = lock_step_outcomes(program);
  for (Rank r = 0; r < cluster.size(); ++r) {
    const std::string rank = "rank " + std::to_string(r);
    if (!cluster.stopped(r)) throw Violation(rank + " goes on");
    if (cluster.stopped(r)->why != cluster.stopped(0)->why) {
      throw Violation(rank +
                      " stopped for a reason of its own: " + cluster.stopped(r)->why.message());
    }
    if (!cluster.rank(r).finished_leaving()) throw Violation(rank + " waits for its children");
    if (cluster.stopped(r)->orderly && cluster.batches_run(r) != cluster.batches_of(r)) {
      throw Violation(rank + " did not run every batch");
    }
    for (const Submitted& one : cluster.submitted(r)) {
      if (one.outcome != Outcome::kPending) check_outcome(expected, one, r);
    }
  }
  check_batches(expected, cluster);
}

Request small_request(const std::string& name, char shape) {
  Request request;
  request.name = name;
  request.shapes = {{shape}};
  return request;
}

Program program_of(const std::vector<std::map<std::string, std::string>>& rows) {
  Program program;
  for (const auto& row : rows) {
    Epoch epoch;
    for (const auto& [name, shapes] : row) {
      auto& rounds = epoch.names[name];
      for (const char shape : shapes) rounds.push_back(small_request(name, shape));
    }
    program.ranks.push_back({{"", {std::move(epoch)}}});
  }
  return program;
}

Request add_set(const std::string& label, const std::vector<Rank>& ranks) {
  Request request;
  request.name = "add " + label;
  request.kind = CollectiveKind::kAddSet;
  request.numbers = ranks;
  return request;
}

Request remove_set(const std::string& label) {
  Request request;
  request.name = kRemove + label;
  request.kind = CollectiveKind::kRemoveSet;
  return request;
}

}  // namespace hvd::engine::test
