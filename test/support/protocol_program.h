#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "test/support/lock_step_cluster.h"

namespace hvd::engine::test {

// What one rank submits to one process set until it joins: by name, one request a round.
struct Epoch {
  std::map<std::string, std::vector<Request>> names = {};
  bool joins = false;  // once everything else is submitted
  bool joins_average = false;
};

// What one rank does in a process set, epoch by epoch; only the last one may be without a join.
using Epochs = std::vector<Epoch>;

// What the ranks of a job submit: by rank and label. The label of the world is ""; another set is
// the one that the submission named "add <label>" to the world adds, and "remove <label>", which
// waits until this rank is through with the set, removes it. Names are unique in all sets.
struct Program {
  std::vector<std::map<std::string, Epochs>> ranks;

  int size() const { return static_cast<int>(ranks.size()); }
};

// The oracle: everyone exchanges everything each round. A round of a name runs when all ranks of
// the set that have such a round submitted the same and the others join, is rejected when they
// submitted different requests (or need a root that has joined), and stays pending when a rank
// neither has such a round nor joins.
struct Expected {
  Submitted::Outcome outcome = Submitted::Outcome::kPending;
  int divisor = 0;
  bool flagged = false;  // by any rank
};
using Outcomes = std::map<Round, Expected>;
Outcomes lock_step_outcomes(const Program& program);

// Something that a rank could submit now; no name = its join.
struct Submission {
  Rank rank = 0;
  std::string label;
  std::string name;
};
std::vector<Submission> possible_submissions(const Program& program,
                                             const LockStepCluster& cluster);
void submit(const Program& program, const Submission& submission, LockStepCluster& cluster,
            bool flush = true);

// Throws Violation unless everything was submitted and ended as the oracle says.
void check_outcomes(const Program& program, const LockStepCluster& cluster);
// Throws Violation unless every rank stopped for one reason, with the same batches run if the stop
// was orderly, and what ended before ended as the oracle says.
void check_stopped(const Program& program, const LockStepCluster& cluster);

// One small allreduce; `shape` 'X', 'Y', ... are shapes that differ.
Request small_request(const std::string& name, char shape);
// rows[r][name] = a string of shapes, one a round.
Program program_of(const std::vector<std::map<std::string, std::string>>& rows);
// The submission named "add <label>".
Request add_set(const std::string& label, const std::vector<Rank>& ranks);
// The submission named "remove <label>"; which set that is, submit() fills in.
Request remove_set(const std::string& label);

}  // namespace hvd::engine::test
