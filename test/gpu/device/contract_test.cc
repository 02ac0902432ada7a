#include <gtest/gtest.h>

#include <tuple>

#include "core/base/status.h"
#include "ops/connect/backends.h"
#include "ops/connect/libraries.h"
#include "ops/nccl/module.h"
#include "test/gpu/cases/contract_cases.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

// The contract of the port with tensors on a GPU: among several ranks by way of the host, and by
// NCCL and through its own GPU memory alone. Through each other's: gpu/ranks, in processes.
namespace hvd::engine {
namespace {

using test::CollectiveCase;

NcclModule& module() {
  backends();  // opens it
  const NcclLibrary& library = nccl_library();
  if (library.module == nullptr) throw InternalError(library.detail);
  return *library.module;
}

class StagedContract : public ::testing::TestWithParam<std::tuple<int, CollectiveCase>> {};

TEST_P(StagedContract, Holds) {
  if (module().devices() == 0) GTEST_SKIP() << module().describe_devices();
  const auto& [size, contract] = GetParam();
  SimWorld world(size);
  test::run_ranks(size, [&, count = size, &run = contract.run](Rank rank) {
    const auto collective = test::on_device(
        module().make_staged_collective(world.collective(rank), {.rank = rank, .size = count}),
        rank);
    run(*collective, rank, count);
  });
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<int, CollectiveCase>>& info) {
  return std::get<1>(info.param).name + "_" + std::to_string(std::get<0>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, StagedContract,
                         ::testing::Combine(::testing::Values(1, 2, 3),
                                            ::testing::ValuesIn(test::collective_contract())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Abort, StagedContract,
                         ::testing::Combine(::testing::Values(2),
                                            ::testing::Values(test::collective_abort_contract())),
                         name_of_case);

class IpcContract : public ::testing::TestWithParam<CollectiveCase> {};

TEST_P(IpcContract, HoldsAtSizeOne) {
  if (module().devices() == 0) GTEST_SKIP() << module().describe_devices();
  SimWorld world(1);
  const auto host = world.collective(0);
  const Rank everyone[] = {0};
  const auto collective =
      test::on_device(module().make_ipc_collective(host->subset(10'001, everyone),
                                                   host->subset(10'002, everyone), {}),
                      0);
  GetParam().run(*collective, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(All, IpcContract, ::testing::ValuesIn(test::collective_contract()),
                         [](const auto& each) { return each.param.name; });

class NcclContract : public ::testing::TestWithParam<CollectiveCase> {};

TEST_P(NcclContract, HoldsAtSizeOne) {
  if (module().devices() == 0) GTEST_SKIP() << module().describe_devices();
  SimWorld world(1);
  const auto collective = test::or_on_host(
      test::on_device(module().make_collective(module().make_id(), {}), 0), world.collective(0));
  GetParam().run(*collective, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(All, NcclContract, ::testing::ValuesIn(test::nccl_contract()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace hvd::engine
