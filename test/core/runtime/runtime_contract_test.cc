// The contract of Runtime on simulated ranks.

#include <gtest/gtest.h>

#include <chrono>
#include <ostream>
#include <string>
#include <tuple>

#include "test/support/run_ranks.h"
#include "test/support/runtime_contract.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine::test {
namespace {

struct Flavour {
  std::string name;
  SimOptions options;
};

void PrintTo(const Flavour& flavour, std::ostream* out) {
  *out << flavour.name;
}

// A device of another kind, whose work is enqueued: what a GPU will look like.
const Flavour kFlavours[] = {{"Sync", {}},
                             {"Async", {.asynchronous = true}},
                             {"Device", {.asynchronous = true, .device = DeviceKind::kCuda}},
                             {"Delayed", {.max_delay = std::chrono::microseconds(200)}},
                             {"DelayedDevice",
                              {.max_delay = std::chrono::microseconds(200),
                               .asynchronous = true,
                               .device = DeviceKind::kCuda}},
                             {"TwoAHost", {.ranks_per_host = 2}}};

using Parameters = std::tuple<Flavour, RuntimeCase, int>;

class SimRuntimeContract : public testing::TestWithParam<Parameters> {};

TEST_P(SimRuntimeContract, Holds) {
  const auto& [flavour, contract, size] = GetParam();
  SimWorld world(size, flavour.options);
  run_ranks(size, [&, &tested = contract](Rank rank) {
    run_case(tested, world.control_plane(rank), world.collective(rank));
  });
}

std::string name_of_case(const testing::TestParamInfo<Parameters>& info) {
  const auto& [flavour, contract, size] = info.param;
  return flavour.name + "_" + contract.name + "_" + std::to_string(size);
}

INSTANTIATE_TEST_SUITE_P(All, SimRuntimeContract,
                         testing::Combine(testing::ValuesIn(kFlavours),
                                          testing::ValuesIn(runtime_contract()),
                                          testing::Values(2, 3, 5)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Eight, SimRuntimeContract,
                         testing::Combine(testing::Values(kFlavours[0]),
                                          testing::ValuesIn(runtime_contract()),
                                          testing::Values(8)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Leaving, SimRuntimeContract,
                         testing::Combine(testing::ValuesIn(kFlavours),
                                          testing::ValuesIn(runtime_leaving_contract()),
                                          testing::Values(2, 4)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Failures, SimRuntimeContract,
                         testing::Combine(testing::ValuesIn(kFlavours),
                                          testing::ValuesIn(runtime_failure_contract()),
                                          testing::Values(2, 4)),
                         name_of_case);

}  // namespace
}  // namespace hvd::engine::test
