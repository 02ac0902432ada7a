#pragma once

#include <string>
#include <vector>

#include "core/runtime/runtime.h"
#include "test/core/runtime/submissions.h"
#include "test/support/runtime_contract.h"

namespace hvd::engine::test {

using RuntimeCases = std::vector<RuntimeCase>;

void add_runtime_collective_cases(RuntimeCases& cases);
void add_runtime_kind_cases(RuntimeCases& cases);
void add_runtime_set_cases(RuntimeCases& cases);
void add_runtime_transfer_cases(RuntimeCases& cases);
void add_runtime_transfer_limit_cases(RuntimeCases& cases);
void add_runtime_stall_cases(RuntimeCases& cases);
void add_runtime_leaving_cases(RuntimeCases& cases);
void add_runtime_failure_cases(RuntimeCases& cases);
void add_runtime_death_cases(RuntimeCases& cases);

// Returns when every rank has come here.
inline void meet(const RuntimePlace& at, const std::string& name) {
  at.runtime.submit(barrier("meet " + name, at.device)).wait();
}

// True if it is on every rank.
inline bool all_agree(const RuntimePlace& at, bool mine) {
  const auto votes = shared<std::int64_t>({mine ? 1 : 0});
  at.runtime.submit(allreduce("vote", votes, ReduceOp::kMin, at.device)).wait();
  return votes->front() == 1;
}

}  // namespace hvd::engine::test
