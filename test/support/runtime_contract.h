#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/runtime/runtime.h"

namespace hvd::engine::test {

// Where one rank is.
struct RuntimePlace {
  Runtime& runtime;
  Rank rank = 0;
  int size = 1;
  DeviceKind device = DeviceKind::kCpu;  // of all tensors, whose memory is the host's

  Rank next() const { return (rank + 1) % size; }
  Rank previous() const { return (rank + size - 1) % size; }
};

// One promise of Runtime, whatever carries it. Every rank calls `run` at the same time, in a thread
// or a process of its own, with a Runtime that no other case uses, of a world of at least two;
// failures are reported through GoogleTest on the rank that sees them, exceptions too.
struct RuntimeCase {
  std::string name;  // letters and digits
  std::function<void(const RuntimePlace&)> run;
  std::function<void(Config&, Rank)> configure = {};  // changes what read_config() gives
  // Puts something in front of the rank's collective.
  std::function<std::unique_ptr<Collective>(Rank, std::unique_ptr<Collective>)> wrap = {};
};

inline void PrintTo(const RuntimeCase& contract, std::ostream* out) {
  *out << contract.name;
}

// After which the ranks leave in order, at the same time.
std::vector<RuntimeCase> runtime_contract();
// After which they leave in order, but not at the same time.
std::vector<RuntimeCase> runtime_leaving_contract();
// Which end the job in error. `run` returns when this rank knows.
std::vector<RuntimeCase> runtime_failure_contract();
// The same; the last rank kills its process.
std::vector<RuntimeCase> runtime_death_contract();

// This rank's part of a case, on the ports of a new world. True if the job ended in error.
bool run_case(const RuntimeCase& contract, std::unique_ptr<ControlPlane> control,
              std::unique_ptr<Collective> collective);

}  // namespace hvd::engine::test
