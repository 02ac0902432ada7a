#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "test/support/collective_contract.h"
#include "test/support/control_plane_contract.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine {
namespace {

struct Flavour {
  std::string name;
  SimOptions options;
};

SimOptions delayed(SimOptions options) {
  options.max_delay = std::chrono::microseconds(200);
  return options;
}

const Flavour kFlavours[] = {
    {"Sync", {}},
    {"Async", {.asynchronous = true}},
    {"SyncDelayed", delayed({})},
    {"AsyncDelayed", delayed({.seed = 7, .asynchronous = true})},
};

const int kSizes[] = {1, 2, 3, 4, 7};

// Megabytes are about mailboxes and chunks, which the simulation has not: two ranks are enough.
template <typename Case>
std::vector<Case> cases_of(const std::vector<Case>& contract, bool large) {
  std::vector<Case> chosen;
  for (const Case& each : contract) {
    const auto has = [&](const char* text) { return each.name.find(text) != std::string::npos; };
    const bool is_large = has("Mebibytes") || has("Large") || has("Mailbox") || has("EverySize");
    if (is_large == large) chosen.push_back(each);
  }
  return chosen;
}

template <typename T>
std::string contract_name(const testing::TestParamInfo<T>& info) {
  return std::get<0>(info.param).name + std::to_string(std::get<1>(info.param)) + "_" +
         std::get<2>(info.param).name;
}

using Sizes = std::vector<int>;
using Parameters = std::tuple<Flavour, Sizes, test::CollectiveCase>;

std::string collective_name(const testing::TestParamInfo<Parameters>& info) {
  return std::get<0>(info.param).name + "_" + std::get<2>(info.param).name;
}

// In a world of each of the sizes.
class SimCollectiveContract : public testing::TestWithParam<Parameters> {};

TEST_P(SimCollectiveContract, Holds) {
  const auto& [flavour, sizes, contract] = GetParam();
  for (const int size : sizes) {
    SimWorld world(size, flavour.options);
    test::run_ranks(size, [&, &run = contract.run](Rank rank) {
      const auto collective = world.collective(rank);
      run(*collective, rank, world.size());
    });
  }
}

const auto kCollectiveContract = test::collective_contract();
const auto kControlContract = test::control_plane_contract();

INSTANTIATE_TEST_SUITE_P(All, SimCollectiveContract,
                         testing::Combine(testing::Values(kFlavours[0], kFlavours[1]),
                                          testing::Values(Sizes{1, 2, 3, 4, 7}),
                                          testing::ValuesIn(cases_of(kCollectiveContract, false))),
                         collective_name);
INSTANTIATE_TEST_SUITE_P(Delayed, SimCollectiveContract,
                         testing::Combine(testing::Values(kFlavours[2], kFlavours[3]),
                                          testing::Values(Sizes{2, 3}),
                                          testing::ValuesIn(cases_of(kCollectiveContract, false))),
                         collective_name);
INSTANTIATE_TEST_SUITE_P(Large, SimCollectiveContract,
                         testing::Combine(testing::Values(kFlavours[0], kFlavours[1]),
                                          testing::Values(Sizes{2}),
                                          testing::ValuesIn(cases_of(kCollectiveContract, true))),
                         collective_name);
INSTANTIATE_TEST_SUITE_P(Abort, SimCollectiveContract,
                         testing::Combine(testing::Values(kFlavours[0]),
                                          testing::Values(Sizes{2, 3, 7}),
                                          testing::Values(test::collective_abort_contract())),
                         collective_name);

using ControlParameters = std::tuple<Flavour, int, test::ControlPlaneCase>;

class SimControlPlaneContract : public testing::TestWithParam<ControlParameters> {};

TEST_P(SimControlPlaneContract, Holds) {
  const auto& [flavour, size, contract] = GetParam();
  SimWorld world(size, flavour.options);
  std::vector<std::unique_ptr<ControlPlane>> planes;
  for (Rank rank = 0; rank < size; ++rank) planes.push_back(world.control_plane(rank));
  test::run_ranks(size, [&, &run = contract.run](Rank rank) {
    run(*planes[static_cast<std::size_t>(rank)], rank, world.size());
  });
}

INSTANTIATE_TEST_SUITE_P(All, SimControlPlaneContract,
                         testing::Combine(testing::Values(kFlavours[0], kFlavours[2]),
                                          testing::ValuesIn(kSizes),
                                          testing::ValuesIn(cases_of(kControlContract, false))),
                         contract_name<ControlParameters>);
INSTANTIATE_TEST_SUITE_P(Large, SimControlPlaneContract,
                         testing::Combine(testing::Values(kFlavours[0], kFlavours[2]),
                                          testing::Values(2),
                                          testing::ValuesIn(cases_of(kControlContract, true))),
                         contract_name<ControlParameters>);

}  // namespace
}  // namespace hvd::engine
