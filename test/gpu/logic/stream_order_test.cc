#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/caller_streams.h"
#include "ops/cuda/stream.h"
#include "ops/nccl/nccl_collective.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/nccl_on_host.h"
#include "test/support/run_ranks.h"

// The engine over NCCL's collectives: results are there for streams, not for the host.
namespace hvd::engine {
namespace {

using test::enqueue_on_host;
using test::host_cuda;

constexpr int kRanks = 2;

class NcclStreamOrder : public ::testing::Test {
 protected:
  ~NcclStreamOrder() override {
    ranks_.runtimes.clear();
    EXPECT_THAT(test::take_nccl_problems(), ::testing::IsEmpty());
  }

  static std::string make_id() {
    test::reset_host_cuda();
    host_cuda().devices = kRanks;
    return make_nccl_id(test::nccl_on_host());
  }
  std::unique_ptr<Collective> collective(Rank rank) {
    auto queue = std::make_shared<LaunchQueue>(rank, Duration::zero());
    auto communicator = std::make_shared<NcclCommunicator>(
        test::nccl_on_host(), id_,
        NcclCommunicator::Place{.rank = rank, .size = kRanks, .device = rank});
    return std::make_unique<NcclCollective>(std::move(queue), std::move(communicator));
  }

  static Handle reduce(Runtime& runtime, const test::Values<float>& values, Fence ready) {
    Submission submission = test::allreduce("x", values, ReduceOp::kSum, DeviceKind::kCuda);
    submission.ready = std::move(ready);
    return runtime.submit(std::move(submission));
  }

  const std::string id_ = make_id();
  CallerStreams streams_;
  test::SimRanks ranks_{
      kRanks, {.device = DeviceKind::kCuda}, {}, [this](Rank rank, std::unique_ptr<Collective>) {
        return collective(rank);
      }};
};

TEST_F(NcclStreamOrder, AStreamWaitsForADeviceThatHasNotBegunAndTheHostDoesNot) {
  host_cuda().by_hand = true;
  host_cuda().hangs = true;
  std::barrier both(kRanks);
  test::run_ranks(kRanks, [&](Rank rank) {
    CudaStream reader(rank);
    const auto values = test::shared<float>({static_cast<float>(rank + 1)});
    const Handle handle = reduce(ranks_[rank], values, {});
    Fence past;
    handle.wait_enqueued(past);
    EXPECT_FALSE(past.reached());
    EXPECT_FALSE(handle.done());
    streams_.wait(rank, reinterpret_cast<std::uintptr_t>(reader.get()), past);
    float seen = 0;
    enqueue_on_host(reader.get(), [&] { seen = values->front(); });
    both.arrive_and_wait();
    EXPECT_EQ(values->front(), rank + 1);
    both.arrive_and_wait();
    host_cuda().hangs = false;
    reader.fence().wait();
    EXPECT_EQ(seen, 3);
    handle.wait();
  });
}

// As a program does that never waits on the host: fills, reduces, reads, and fills again.
TEST_F(NcclStreamOrder, ALoopOnOneStreamSeesEverySum) {
  constexpr int kRounds = 40;
  host_cuda().lazy = true;
  test::run_ranks(kRanks, [&](Rank rank) {
    CudaStream mine(rank);
    const auto values = test::shared<float>({0});
    std::vector<float> seen(kRounds);
    for (int round = 0; round < kRounds; ++round) {
      enqueue_on_host(mine.get(),
                      [&, round] { values->front() = static_cast<float>(rank + 1 + round); });
      const Handle handle = reduce(ranks_[rank], values, mine.fence());
      Fence past;
      handle.wait_enqueued(past);
      streams_.wait(rank, reinterpret_cast<std::uintptr_t>(mine.get()), past);
      enqueue_on_host(mine.get(),
                      [&, round] { seen[static_cast<std::size_t>(round)] = values->front(); });
    }
    mine.fence().wait();
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(seen[static_cast<std::size_t>(round)], 3 + 2 * round);
    }
  });
}

}  // namespace
}  // namespace hvd::engine
