#include "ops/cuda_ipc/ipc_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <thread>
#include <tuple>

#include "core/base/status.h"
#include "ops/cuda/reduce.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/support/attempts.h"
#include "test/support/collective_contract.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine {
namespace {

using test::CollectiveCase;
using test::host_cuda;
using ::testing::HasSubstr;

constexpr IpcLimits kSmallChunks = {.chunk_bytes = 16384, .most_whole = 2048};

std::unique_ptr<IpcCollective> make_ipc(SimWorld& world, Rank rank,
                                        const IpcCollective::Options& options = {
                                            .limits = kSmallChunks}) {
  std::vector<Rank> everyone;
  for (Rank each = 0; each < world.size(); ++each) everyone.push_back(each);
  const auto host = world.collective(rank);
  return std::make_unique<IpcCollective>(
      std::make_unique<StagedCollective>(0, host->subset(1, everyone), rank, world.size()),
      host->subset(2, everyone), rank, world.size(), options);
}

// How CUDA behaves, and whether ranks can share memory.
enum class Machine { kAtOnce, kLazy, kWithoutIpc };

std::string name_of(Machine machine) {
  if (machine == Machine::kAtOnce) return "AtOnce";
  return machine == Machine::kLazy ? "Lazy" : "WithoutIpc";
}

class IpcContract : public ::testing::TestWithParam<std::tuple<Machine, int, CollectiveCase>> {};

TEST_P(IpcContract, Holds) {
  test::reset_host_cuda();
  const int events = host_cuda().events;
  const int streams = host_cuda().streams;
  const int opened = host_cuda().ipc_opened;  // by ranks that failed
  const auto& [machine, size, contract] = GetParam();
  host_cuda().lazy = machine == Machine::kLazy;
  if (machine == Machine::kWithoutIpc) host_cuda().ipc_open_error = cudaErrorMapBufferObjectFailed;
  SimWorld world(size);
  test::run_ranks(size, [&, count = size, &run = contract.run](Rank rank) {
    const auto collective = make_ipc(world, rank);
    run(*collective, rank, count);
  });
  EXPECT_EQ(host_cuda().ipc_opened, opened);
  EXPECT_EQ(host_cuda().freed_while_opened, 0);
  EXPECT_EQ(host_cuda().events, events);
  EXPECT_EQ(host_cuda().streams, streams);
}

// An abort leaves what other ranks may use.
class IpcAbortContract : public IpcContract {};

TEST_P(IpcAbortContract, Holds) {
  test::reset_host_cuda();
  const auto& [machine, size, contract] = GetParam();
  host_cuda().lazy = machine == Machine::kLazy;
  SimWorld world(size);
  test::run_ranks(size, [&, count = size, &run = contract.run](Rank rank) {
    const auto collective = make_ipc(world, rank);
    run(*collective, rank, count);
  });
  EXPECT_EQ(host_cuda().freed_while_opened, 0);
}

std::string name_of_case(
    const ::testing::TestParamInfo<std::tuple<Machine, int, CollectiveCase>>& info) {
  return std::get<2>(info.param).name + "_" + name_of(std::get<0>(info.param)) + "_" +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, IpcContract,
                         ::testing::Combine(::testing::Values(Machine::kAtOnce, Machine::kLazy),
                                            ::testing::Values(1, 2, 3, 4),
                                            ::testing::ValuesIn(test::collective_contract())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Refused, IpcContract,
                         ::testing::Combine(::testing::Values(Machine::kWithoutIpc),
                                            ::testing::Values(3),
                                            ::testing::ValuesIn(test::collective_contract())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(All, IpcAbortContract,
                         ::testing::Combine(::testing::Values(Machine::kAtOnce, Machine::kLazy),
                                            ::testing::Values(2, 3),
                                            ::testing::Values(test::collective_abort_contract())),
                         name_of_case);

// One all-reduce of `numel` ones by each rank; true if all became the number of ranks.
bool sums_ones(Collective& collective, int size, std::int64_t numel) {
  std::vector<float> values(static_cast<std::size_t>(numel), 1.0f);
  const TensorView view = {values.data(), numel, DType::kF32, {DeviceKind::kCuda, 0}};
  const Slice slice = {view, view};
  const auto operation = collective.all_reduce({&slice, 1}, {});
  test::finish(*operation, collective);
  return values == std::vector<float>(values.size(), static_cast<float>(size));
}

class Ipc : public ::testing::Test {
 protected:
  void SetUp() override { test::reset_host_cuda(); }
  void TearDown() override { test::reset_host_cuda(); }
};

TEST_F(Ipc, ARankThatCannotExportSendsAllByWayOfTheHost) {
  host_cuda().ipc_export_error = cudaErrorNotSupported;
  SimWorld world(2);
  ::testing::internal::CaptureStderr();
  test::run_ranks(2, [&](Rank rank) {
    const auto collective = make_ipc(world, rank);
    EXPECT_TRUE(sums_ones(*collective, 2, 10'000));
    EXPECT_TRUE(sums_ones(*collective, 2, 3));
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("rank 0 of 2: cudaIpcGetMemHandle: text of an error"));
  EXPECT_EQ(said.find("by way of host"), said.rfind("by way of host")) << "once: " << said;
}

TEST_F(Ipc, OneRankThatCannotOpenSendsAllByWayOfTheHost) {
  host_cuda().ipc_open_error = cudaErrorPeerAccessUnsupported;
  host_cuda().ipc_opens_until_error = 3;
  SimWorld world(3);
  ::testing::internal::CaptureStderr();
  test::run_ranks(3, [&](Rank rank) {
    const auto collective = make_ipc(world, rank);
    EXPECT_TRUE(sums_ones(*collective, 3, 10'000));
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("cudaIpcOpenMemHandle"));
  EXPECT_EQ(host_cuda().ipc_opened, 0);
}

TEST_F(Ipc, MoreRanksThanAKernelTakesGoByWayOfTheHost) {
  constexpr int kRanks = ReduceInputs::kMostRanks + 1;
  SimWorld world(kRanks);
  ::testing::internal::CaptureStderr();
  test::run_ranks(kRanks, [&](Rank rank) {
    const auto collective = make_ipc(world, rank);
    EXPECT_TRUE(sums_ones(*collective, kRanks, 100));
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("65 ranks"));
}

// What the first operation of a set on `rank` ends with, when the others were there for the first
// all-reduce only.
template <typename Lost>
void expect_second_fails(int size, const Lost& lost) {
  const auto first_is_in_time = [&] {
    SimWorld world(size);
    std::latch connected(size);
    std::atomic<bool> late = false;
    test::run_ranks(size, [&](Rank rank) {
      const auto collective = make_ipc(world, rank, {.limit = std::chrono::milliseconds(50)});
      try {
        EXPECT_TRUE(sums_ones(*collective, size, 1000));
      } catch (const StalledError&) {  // the limit is the first one's too
        late = true;
      }
      connected.arrive_and_wait();
      if (!late) lost(world, *collective, rank);
    });
    return !late;
  };
  EXPECT_TRUE(test::first_good(first_is_in_time, std::identity()));
}

TEST_F(Ipc, APeerThatIsLostInTheMiddleEndsTheOperation) {
  expect_second_fails(3, [](SimWorld& world, Collective& collective, Rank rank) {
    if (rank == 2) return world.kill(rank);
    std::thread notices([&] {  // the control plane, in a job
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      collective.abort();
    });
    EXPECT_THROW(sums_ones(collective, 3, 50'000), Error);
    notices.join();
    EXPECT_THROW(sums_ones(collective, 3, 1), Error) << "it stays so";
  });
}

TEST_F(Ipc, ADeviceThatHangsIsNotWaitedForForEver) {
  host_cuda().lazy = true;
  std::latch ready(2);
  expect_second_fails(2, [&](SimWorld&, Collective& collective, Rank) {
    host_cuda().hangs = true;
    ready.arrive_and_wait();
    EXPECT_THROW(sums_ones(collective, 2, 50'000), StalledError) << "the host is not ahead forever";
  });
}

// Adasum goes by way of pinned memory, which the copy back still reads when the host is through.
TEST_F(Ipc, AnOperationByWayOfTheHostKeepsItsMemoryUntilItIsDestroyed) {
  host_cuda().lazy = true;
  SimWorld world(1);
  const auto collective = make_ipc(world, 0);
  float sum = 3;
  const TensorView view = {&sum, 1, DType::kF32, {DeviceKind::kCuda, 0}};
  const Slice slice = {view, view};
  const auto operation = collective->all_reduce({&slice, 1}, {.op = ReduceOp::kAdasum});
  while (!operation->advance()) {
  }
  host_cuda().hangs = true;
  sum = 0;  // nobody has read it since it came to the host
  float other = 4;
  float written = 0;
  collective->write(&other, &written, sizeof other);
  host_cuda().hangs = false;
  test::run_streams();
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(written, 4);
}

TEST_F(Ipc, AFenceThatIsNotReachedEndsWithTheAbort) {
  host_cuda().lazy = true;
  SimWorld world(1);
  const auto collective = make_ipc(world, 0, {.limits = kSmallChunks});
  EXPECT_TRUE(sums_ones(*collective, 1, 10));
  host_cuda().hangs = true;
  const Fence fence = collective->fence();
  EXPECT_FALSE(fence.reached());
  collective->abort();
  EXPECT_THROW(fence.wait(), AbortedError);
}

TEST_F(Ipc, ADeviceThatFailedEndsTheFence) {
  SimWorld world(1);
  const auto collective = make_ipc(world, 0);
  EXPECT_TRUE(sums_ones(*collective, 1, 10));
  host_cuda().wait_error = cudaErrorLaunchFailure;
  EXPECT_THROW(collective->fence().wait(), PeerLostError);
}

}  // namespace
}  // namespace hvd::engine
