#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ports/collective.h"

namespace hvd::engine::test {

// One promise of the port Collective (core/ports/collective.h). Every rank calls `run` at the
// same time with its own Collective of host memory, in a thread or a process of its own; failures
// are reported through GoogleTest on the rank that sees them, exceptions too. All cases may use one
// Collective, one after the other.
struct CollectiveCase {
  std::string name;  // letters, digits and underscores
  std::function<void(Collective&, Rank rank, int size)> run;
};

std::vector<CollectiveCase> collective_contract();

// Aborts its Collective: for one that no other case uses. On rank size-1, which never starts the
// operations that the others wait for, it returns once the arena of all ranks is made.
CollectiveCase collective_abort_contract();

// Polls until the operation is finished and its results are there. Throws std::runtime_error after
// 30 s, and what advance() throws.
void finish(Operation& operation, Collective& collective);

}  // namespace hvd::engine::test
