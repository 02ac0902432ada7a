#include "ops/shm/shm_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/status.h"
#include "test/ops/shm/shm_ranks.h"
#include "test/support/collective_cases.h"
#include "test/support/collective_contract.h"
#include "test/support/run_ranks.h"

namespace hvd::test {
namespace {

using ::testing::HasSubstr;

struct Flavour {
  std::string name;
  ShmLimits limits;
};

const Flavour kDefault = {"Default", {}};
// Every batch takes many steps and every operation waits for the one before.
const Flavour kTiny = {"Tiny", {.lanes = 1, .chunk_bytes = 4096, .small_bytes = 0}};
const Flavour kTinySmall = {"TinySmall",
                            {.lanes = 2, .chunk_bytes = 4096, .small_bytes = std::size_t{1} << 30}};

std::vector<CollectiveCase> cases_of(bool large) {
  std::vector<CollectiveCase> chosen;
  for (const CollectiveCase& each : collective_contract()) {
    const auto has = [&](const char* text) { return each.name.find(text) != std::string::npos; };
    const bool is_large = has("Mebibytes") || has("Large") || has("EverySize");
    if (is_large == large) chosen.push_back(each);
  }
  return chosen;
}

using Sizes = std::vector<int>;
using Parameters = std::tuple<Flavour, Sizes, CollectiveCase>;

class ShmCollectiveContract : public ::testing::TestWithParam<Parameters> {};

TEST_P(ShmCollectiveContract, Holds) {
  const auto& [flavour, sizes, contract] = GetParam();
  for (const int size : sizes) {
    ShmRanks ranks(size, flavour.limits);
    run_ranks(size,
              [&, &run = contract.run, count = size](Rank rank) { run(ranks[rank], rank, count); });
  }
}

std::string name_of_case(const ::testing::TestParamInfo<Parameters>& info) {
  return std::get<0>(info.param).name + "_" + std::get<2>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(All, ShmCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault, kTiny, kTinySmall),
                                            ::testing::Values(Sizes{1, 2, 3, 4, 7}),
                                            ::testing::ValuesIn(cases_of(false))),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Large, ShmCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault),
                                            ::testing::Values(Sizes{1, 2, 3}),
                                            ::testing::ValuesIn(cases_of(true))),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Abort, ShmCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault, kTiny),
                                            ::testing::Values(Sizes{2, 3, 7}),
                                            ::testing::Values(collective_abort_contract())),
                         name_of_case);

}  // namespace
}  // namespace hvd::test
