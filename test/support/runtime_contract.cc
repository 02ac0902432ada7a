#include "test/support/runtime_contract.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "test/support/runtime_cases.h"

namespace hvd::engine::test {
namespace {

template <typename... Adders>
std::vector<RuntimeCase> cases_of(Adders... adders) {
  std::vector<RuntimeCase> cases;
  (adders(cases), ...);
  return cases;
}

void run_guarded(const RuntimeCase& contract, const RuntimePlace& at) {
  SCOPED_TRACE("rank " + std::to_string(at.rank) + " of " + std::to_string(at.size));
  try {
    contract.run(at);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

// Nobody leaves while another one is in the case.
void meet_at_the_end(const RuntimePlace& at) {
  try {
    meet(at, "at the end");
  } catch (const Error& error) {
    ADD_FAILURE() << "rank " << at.rank << " after the case: " << error.what();
  }
}

}  // namespace

std::vector<RuntimeCase> runtime_contract() {
  auto cases = cases_of(add_runtime_collective_cases, add_runtime_kind_cases, add_runtime_set_cases,
                        add_runtime_transfer_cases, add_runtime_transfer_limit_cases,
                        add_runtime_stall_cases);
  for (RuntimeCase& each : cases) {
    each.run = [run = std::move(each.run)](const RuntimePlace& at) {
      run(at);
      meet_at_the_end(at);
    };
  }
  return cases;
}

std::vector<RuntimeCase> runtime_leaving_contract() {
  return cases_of(add_runtime_leaving_cases);
}

std::vector<RuntimeCase> runtime_failure_contract() {
  auto cases = cases_of(add_runtime_failure_cases);
  for (RuntimeCase& each : cases) {
    each.run = [run = std::move(each.run)](const RuntimePlace& at) {
      run(at);
      EXPECT_TRUE(at.runtime.ended_in_error());
    };
  }
  return cases;
}

std::vector<RuntimeCase> runtime_death_contract() {
  return cases_of(add_runtime_death_cases);
}

bool run_case(const RuntimeCase& contract, std::unique_ptr<ControlPlane> control,
              std::unique_ptr<Collective> collective) {
  const Topology here = control->topology();
  Config config = read_config();
  if (contract.configure) contract.configure(config, here.rank);
  const DeviceKind device = collective->device();
  if (contract.wrap) collective = contract.wrap(here.rank, std::move(collective));
  std::vector<std::unique_ptr<Collective>> collectives;
  collectives.push_back(std::move(collective));
  Runtime runtime(std::move(control), std::move(collectives), config);
  run_guarded(contract, {runtime, here.rank, here.size, device});
  runtime.shutdown();
  return runtime.ended_in_error();
}

}  // namespace hvd::engine::test
