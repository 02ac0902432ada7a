#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "ops/nccl/nccl_collective.h"
#include "test/gpu/cases/contract_cases.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/nccl_on_host.h"
#include "test/support/collective_contract.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

// The contract of the port over NCCL with as many ranks as threads: on memory as it is, and, when
// streams are late, on copies of it.
namespace hvd::engine {
namespace {

using test::CollectiveCase;
using ::testing::IsEmpty;

class NcclContract : public ::testing::TestWithParam<std::tuple<int, bool, CollectiveCase>> {
 protected:
  void run() {
    const auto& [size, late, contract] = GetParam();
    test::reset_host_cuda();
    test::host_cuda().devices = size;
    test::host_cuda().lazy = late;
    const NcclApi& nccl = test::nccl_on_host();
    const std::string id = make_nccl_id(nccl);
    {
      SimWorld host(size);
      test::run_ranks(size, [&, count = size, on_device = late, &run = contract.run](Rank rank) {
        auto queue = std::make_shared<LaunchQueue>(rank, Duration::zero());
        auto communicator = std::make_shared<NcclCommunicator>(
            nccl, id, NcclCommunicator::Place{.rank = rank, .size = count, .device = rank});
        std::unique_ptr<Collective> nccl_of_rank =
            std::make_unique<NcclCollective>(std::move(queue), std::move(communicator));
        if (on_device) nccl_of_rank = test::on_device(std::move(nccl_of_rank), rank);
        const auto collective = test::or_on_host(std::move(nccl_of_rank), host.collective(rank));
        run(*collective, rank, count);
      });
    }
    EXPECT_THAT(test::take_nccl_problems(), IsEmpty());
  }
};

TEST_P(NcclContract, Holds) {
  run();
}

std::string name_of_case(const ::testing::TestParamInfo<NcclContract::ParamType>& info) {
  const bool late = std::get<1>(info.param);
  return std::get<2>(info.param).name + "_" + std::to_string(std::get<0>(info.param)) +
         (late ? "_Late" : "");
}

INSTANTIATE_TEST_SUITE_P(All, NcclContract,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Values(false),
                                            ::testing::ValuesIn(test::nccl_contract())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Late, NcclContract,
                         ::testing::Combine(::testing::Values(2), ::testing::Values(true),
                                            ::testing::ValuesIn(test::nccl_contract())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Abort, NcclContract,
                         ::testing::Combine(::testing::Values(2, 3), ::testing::Values(false),
                                            ::testing::Values(test::collective_abort_contract())),
                         name_of_case);

}  // namespace
}  // namespace hvd::engine
