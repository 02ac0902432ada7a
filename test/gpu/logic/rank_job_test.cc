#include "test/gpu/cases/rank_job.h"

#include <gtest/gtest.h>

#include "ops/cuda/staged_collective.h"
#include "ops/cuda_ipc/ipc_collective.h"
#include "ops/nccl/nccl_collective.h"
#include "test/gpu/logic/fake_nccl.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine {
namespace {

using test::host_cuda;

// Everything from a submission to the completion thread, over CUDA on host memory.
TEST(RankJob, GoesByWayOfTheHost) {
  test::reset_host_cuda();
  for (const int size : {1, 2, 4}) {
    SimWorld world(size);
    std::vector<Rank> everyone;
    for (Rank rank = 0; rank < size; ++rank) everyone.push_back(rank);
    test::run_ranks(size, [&](Rank rank) {
      std::vector<std::unique_ptr<Collective>> collectives;
      collectives.push_back(world.collective(rank));
      auto host = collectives.front()->subset(0x7acc'0000, everyone);
      collectives.push_back(std::make_unique<StagedCollective>(0, std::move(host), rank, size));
      Runtime runtime(world.control_plane(rank), std::move(collectives), Config{});
      EXPECT_EQ(test::run_rank_job(runtime, 0), "") << "rank " << rank << " of " << size;
    });
  }
}

TEST(RankJob, GoesThroughSharedGpuMemory) {
  test::reset_host_cuda();
  host_cuda().lazy = true;
  const int opened = host_cuda().ipc_opened;
  for (const int size : {1, 2, 4}) {
    SimWorld world(size);
    std::vector<Rank> everyone;
    for (Rank rank = 0; rank < size; ++rank) everyone.push_back(rank);
    test::run_ranks(size, [&](Rank rank) {
      std::vector<std::unique_ptr<Collective>> collectives;
      collectives.push_back(world.collective(rank));
      auto host = collectives.front()->subset(0x7acc'0000, everyone);
      auto handshakes = collectives.front()->subset(0x7acc'0001, everyone);
      collectives.push_back(std::make_unique<IpcCollective>(
          std::make_unique<StagedCollective>(0, std::move(host), rank, size), std::move(handshakes),
          rank, size, IpcCollective::Options{}));
      Runtime runtime(world.control_plane(rank), std::move(collectives), Config{});
      EXPECT_EQ(test::run_rank_job(runtime, 0), "") << "rank " << rank << " of " << size;
    });
  }
  EXPECT_EQ(host_cuda().ipc_opened, opened);
  EXPECT_EQ(host_cuda().freed_while_opened, 0);
  test::reset_host_cuda();
}

TEST(RankJob, GoesByNcclInAWorldOfOne) {
  test::FakeNccl nccl;
  nccl.copies = true;
  SimWorld world(1);
  std::vector<std::unique_ptr<Collective>> collectives;
  collectives.push_back(world.collective(0));
  collectives.push_back(std::make_unique<NcclCollective>(
      std::make_shared<LaunchQueue>(0, Duration::zero()),
      std::make_shared<NcclCommunicator>(nccl.api(), make_nccl_id(nccl.api()),
                                         NcclCommunicator::Place{})));
  Runtime runtime(world.control_plane(0), std::move(collectives), Config{});
  EXPECT_EQ(test::run_rank_job(runtime, 0), "");
}

}  // namespace
}  // namespace hvd::engine
