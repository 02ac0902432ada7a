#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "test/support/protocol_program.h"

namespace hvd::engine::test {

// A job that is small enough to try every schedule of it.
struct SmallJob {
  std::vector<Rank> parents = {};  // the tree, see trees_of()
  Program program = {};
  NegotiationSettings settings = {};
  std::vector<std::string> known = {};  // names whose first round ran before the schedule begins
  std::vector<Rank> leavers = {};       // each leaves at some point
  // How many seconds pass at some point. A message takes less than a second, and time is left out
  // where no timer runs.
  int seconds = 0;
};

struct Exploration {
  std::size_t states = 0;
  std::size_t ends = 0;   // states in which nothing can move any more
  bool complete = false;  // false: it gave up at its limit
};

// Looks at every state that some schedule of the job leads to, each once: schedules that give every
// rank the same history lead to one state. Where nothing can move any more, time goes on until no
// timer runs (100 s at most), and `check_end` looks at the result. What breaks a promise throws
// Violation.
Exploration explore(const SmallJob& job, std::size_t max_states,
                    const std::function<void(const LockStepCluster&)>& check_end);

}  // namespace hvd::engine::test
