#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "test/support/lock_step_cluster.h"

namespace hvd::test {

// What the ranks of a job submit: by rank, by name, one request a round. Every rank lists every
// name; one that has fewer rounds of a name keeps the others waiting.
struct Program {
  std::vector<std::map<std::string, std::vector<Request>>> ranks;

  int size() const { return static_cast<int>(ranks.size()); }
};

// The oracle: everyone exchanges everything each round. A round of a name runs when all ranks
// submitted the same, is rejected when they submitted different requests, and stays pending when a
// rank has no such round.
using Outcomes = std::map<std::pair<std::string, int>, Submitted::Outcome>;
Outcomes lock_step_outcomes(const Program& program);

// Names and rounds that each rank could submit now.
struct Submission {
  Rank rank = 0;
  std::string name;
};
std::vector<Submission> possible_submissions(const Program& program,
                                             const LockStepCluster& cluster);
void submit(const Program& program, const Submission& submission, LockStepCluster& cluster,
            bool flush = true);

// Throws Violation unless every submission of the program ended as the oracle says.
void check_outcomes(const Program& program, const LockStepCluster& cluster);
// Throws Violation unless every rank stopped for one reason, with the same batches run if the stop
// was orderly, and what ended before ended as the oracle says.
void check_stopped(const Program& program, const LockStepCluster& cluster);

// One small allreduce; `shape` 'X', 'Y', ... are shapes that differ.
Request small_request(const std::string& name, char shape);
// rows[r][name] = a string of shapes, one a round.
Program program_of(const std::vector<std::map<std::string, std::string>>& rows);

}  // namespace hvd::test
