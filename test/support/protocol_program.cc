#include "test/support/protocol_program.h"

#include <algorithm>

namespace hvd::test {
namespace {

Submitted::Outcome lock_step_outcome(const Program& program, const std::string& name,
                                     std::size_t round) {
  const Request* first = nullptr;
  bool agree = true;
  for (const auto& rank : program.ranks) {
    const auto& rounds = rank.at(name);
    if (round >= rounds.size()) return Submitted::Outcome::kPending;
    if (first == nullptr) first = &rounds[round];
    agree = agree && rounds[round] == *first;
  }
  return agree ? Submitted::Outcome::kRan : Submitted::Outcome::kRejected;
}

void check_outcome(const Outcomes& expected, const Submitted& one, Rank r) {
  if (expected.at({one.name, one.round}) == one.outcome) return;
  throw Violation(one.name + " round " + std::to_string(one.round) + " on rank " +
                  std::to_string(r) + " ended as " + std::to_string(static_cast<int>(one.outcome)));
}

}  // namespace

Outcomes lock_step_outcomes(const Program& program) {
  Outcomes outcomes;
  for (const auto& rank : program.ranks) {
    for (const auto& [name, rounds] : rank) {
      for (std::size_t i = 0; i < rounds.size(); ++i) {
        outcomes[{name, static_cast<int>(i)}] = lock_step_outcome(program, name, i);
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
    for (const auto& [name, rounds] : program.ranks[static_cast<std::size_t>(r)]) {
      const auto next = static_cast<std::size_t>(cluster.rounds(r, name));
      if (next < rounds.size() && !cluster.pending(r, name)) all.push_back({r, name});
    }
  }
  return all;
}

void submit(const Program& program, const Submission& submission, LockStepCluster& cluster,
            bool flush) {
  const auto& rounds = program.ranks[static_cast<std::size_t>(submission.rank)];
  const auto next = static_cast<std::size_t>(cluster.rounds(submission.rank, submission.name));
  cluster.submit(submission.rank, rounds.at(submission.name).at(next), flush);
}

void check_outcomes(const Program& program, const LockStepCluster& cluster) {
  const Outcomes expected = lock_step_outcomes(program);
  for (Rank r = 0; r < cluster.size(); ++r) {
    if (cluster.submitted(r).size() != expected.size()) {
      throw Violation("deadlock: rank " + std::to_string(r) + " got through " +
                      std::to_string(cluster.submitted(r).size()) + " of " +
                      std::to_string(expected.size()) + " submissions");
    }
    for (const Submitted& one : cluster.submitted(r)) check_outcome(expected, one, r);
  }
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
    if (cluster.stopped(r)->orderly && cluster.batches_run(r) != cluster.batches().size()) {
      throw Violation(rank + " did not run every batch");
    }
    for (const Submitted& one : cluster.submitted(r)) {
      if (one.outcome != Submitted::Outcome::kPending) check_outcome(expected, one, r);
    }
  }
}

Request small_request(const std::string& name, char shape) {
  Request request;
  request.name = name;
  request.shape = {shape};
  return request;
}

Program program_of(const std::vector<std::map<std::string, std::string>>& rows) {
  Program program;
  for (const auto& row : rows) {
    auto& mine = program.ranks.emplace_back();
    for (const auto& [name, shapes] : row) {
      auto& rounds = mine[name];
      for (const char shape : shapes) rounds.push_back(small_request(name, shape));
    }
  }
  return program;
}

}  // namespace hvd::test
