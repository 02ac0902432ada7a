#include "ops/cuda/staged_collective.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "core/base/status.h"
#include "ops/cuda/module_memory.h"
#include "ops/self/self_backend.h"
#include "test/gpu/cases/contract_cases.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/support/collective_contract.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine {
namespace {

using test::CollectiveCase;
using test::host_cuda;

class StagedContract : public ::testing::TestWithParam<std::tuple<int, CollectiveCase>> {};

TEST_P(StagedContract, Holds) {
  test::reset_host_cuda();
  const auto& [size, contract] = GetParam();
  SimWorld world(size);
  test::run_ranks(size, [&, count = size, &run = contract.run](Rank rank) {
    StagedCollective collective(0, world.collective(rank), rank, count);
    run(collective, rank, count);
  });
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<int, CollectiveCase>>& info) {
  return std::get<1>(info.param).name + "_" + std::to_string(std::get<0>(info.param));
}

// On copies in the device's memory, while its streams are late.
class StagedOnDevice : public ::testing::TestWithParam<CollectiveCase> {};

TEST_P(StagedOnDevice, Holds) {
  test::reset_host_cuda();
  host_cuda().lazy = true;
  SimWorld world(2);
  test::run_ranks(2, [&, &run = GetParam().run](Rank rank) {
    const auto collective = test::on_device(
        std::make_unique<StagedCollective>(0, world.collective(rank), rank, 2), rank);
    run(*collective, rank, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(All, StagedOnDevice, ::testing::ValuesIn(test::collective_contract()),
                         [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(All, StagedContract,
                         ::testing::Combine(::testing::Values(1, 2, 3),
                                            ::testing::ValuesIn(test::collective_contract())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Abort, StagedContract,
                         ::testing::Combine(::testing::Values(2),
                                            ::testing::Values(test::collective_abort_contract())),
                         name_of_case);

class Gate final : public Fence::State {
 public:
  bool reached() override { return open; }
  void wait() override {}
  bool open = false;
};

class Staged : public ::testing::Test {
 protected:
  void SetUp() override { test::reset_host_cuda(); }

  std::unique_ptr<Operation> doubled(float& value) {
    const TensorView view = {&value, 1, DType::kF32, {DeviceKind::kCuda, 0}};
    const Slice slice = {view, view};
    return collective_.all_reduce({&slice, 1}, {ReduceOp::kSum, 2.0, 1.0});
  }

  StagedCollective collective_{0, std::make_unique<SelfCollective>(), 0, 1};
};

TEST_F(Staged, NothingStartsOnTheHostBeforeTheCopiesAreThere) {
  host_cuda().stalled = true;
  float value = 3;
  const auto operation = doubled(value);
  EXPECT_FALSE(operation->advance());
  EXPECT_TRUE(collective_.poll_interval().has_value());
  host_cuda().stalled = false;
  EXPECT_TRUE(operation->advance());
  EXPECT_EQ(value, 6);
  EXPECT_FALSE(collective_.poll_interval().has_value());
}

TEST_F(Staged, OperationsStartInOrderWhicheverIsPolled) {
  const auto gate = std::make_shared<Gate>();
  collective_.after(Fence(gate));
  float first = 1;
  float second = 2;
  const auto one = doubled(first);
  const auto two = doubled(second);
  EXPECT_FALSE(two->advance());
  gate->open = true;
  EXPECT_TRUE(two->advance());
  EXPECT_TRUE(one->advance());
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 4);
}

TEST_F(Staged, ADeviceThatFailedEndsTheOperation) {
  host_cuda().wait_error = cudaErrorLaunchFailure;
  float value = 3;
  const auto operation = doubled(value);
  EXPECT_THROW(operation->advance(), PeerLostError);
}

TEST_F(Staged, AWriteWaitsForNothingAndItsSourceMayChange) {
  host_cuda().hangs = true;
  float value = 3;
  float on_device = 0;
  collective_.write(&value, &on_device, sizeof value);
  value = 0;
  EXPECT_EQ(host_cuda().waiting_copies, 0);
  host_cuda().hangs = false;
  test::run_streams();
  EXPECT_EQ(on_device, 3);
}

TEST_F(Staged, AWriteThatIsUnderWayKeepsItsMemory) {
  float on_device[2] = {};
  const float values[] = {3, 4};
  host_cuda().hangs = true;
  for (int i = 0; i < 2; ++i) collective_.write(&values[i], &on_device[i], sizeof values[i]);
  host_cuda().hangs = false;
  test::run_streams();
  EXPECT_EQ(on_device[0], 3);
  EXPECT_EQ(on_device[1], 4);
}

// The memory is of a pool, in the order of the stream that writes it.
TEST_F(Staged, AResultComesAndGoesWithoutWaitingForTheDevice) {
  const auto own = reinterpret_cast<cudaStream_t>(cuda_memory().stream(0));
  bool written = false;
  bool read = false;
  const int mallocs = host_cuda().mallocs;
  const int before = host_cuda().in_pool;
  Buffer result = collective_.allocate_result(1000);
  test::enqueue(collective_.queue()->stream().get(), [&] { return written; });
  test::enqueue(own, [&] { return read; });
  result = {};
  EXPECT_EQ(host_cuda().mallocs, mallocs);
  for (bool* const done : {&written, &read}) {
    test::run_streams();
    EXPECT_EQ(host_cuda().in_pool, before + 1);
    *done = true;
  }
  test::run_streams();
  EXPECT_EQ(host_cuda().in_pool, before);
}

TEST_F(Staged, AResultForWhichThereIsNoMemoryIsAnErrorWithItsSize) {
  host_cuda().memory_error = cudaErrorMemoryAllocation;
  try {
    collective_.allocate_result(1234);
    ADD_FAILURE() << "there was enough";
  } catch (const PeerLostError& error) {
    EXPECT_NE(std::string(error.what()).find("allocation of 1234 bytes"), std::string::npos)
        << error.what();
  }
}

TEST_F(Staged, WhatHasNoMeaningIsRefusedAtTheCall) {
  const TensorView view = {nullptr, 0, DType::kF32, {DeviceKind::kCuda, 0}};
  const Slice slice = {view, view};
  EXPECT_THROW(collective_.broadcast({&slice, 1}, 1), InvalidArgumentError);
  EXPECT_THROW(collective_.send(view, 1, 0), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd::engine
