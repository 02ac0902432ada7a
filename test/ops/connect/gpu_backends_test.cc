#include "ops/connect/gpu_backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "ops/self/self_backend.h"
#include "test/support/all_gather.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine {
namespace {

using ::testing::HasSubstr;

const GpuAssignment kFirst = {.host = "x", .gpu = "GPU-1"};
const GpuAssignment kSecond = {.host = "x", .gpu = "GPU-2"};
const GpuAssignment kNoGpu = {.host = "x", .problem = "no driver"};
const GpuAssignment kNoNccl = {.host = "x", .gpu = "GPU-2", .nccl_problem = "libnccl.so.2 is old"};

GpuChoice automatic(const std::vector<GpuAssignment>& claims, int hosts = 1) {
  return choose_gpu_operations(claims, "auto", hosts);
}

TEST(GpuChoices, NcclWhereEachRankHasAGpu) {
  EXPECT_EQ(automatic({kFirst, kSecond}).operations, "nccl");
  EXPECT_EQ(automatic({kFirst, kSecond}, 2).operations, "nccl");
}

TEST(GpuChoices, IpcWhereRanksOfOneHostShareOneOrHaveNoNccl) {
  EXPECT_EQ(automatic({kFirst, kSecond, kFirst}).operations, "ipc");
  const GpuChoice without = automatic({kFirst, kNoNccl});
  EXPECT_EQ(without.operations, "ipc");
  EXPECT_THAT(without.why, HasSubstr("rank 1 on host x has no NCCL: libnccl.so.2 is old"));
}

TEST(GpuChoices, TheHostWhereThereAreSeveral) {
  const GpuChoice choice = automatic({kFirst, kFirst}, 2);
  EXPECT_EQ(choice.operations, "host");
  EXPECT_THAT(choice.why, HasSubstr("2 hosts"));
}

TEST(GpuChoices, NothingWhereARankHasNoGpu) {
  const GpuChoice choice = automatic({kFirst, kNoGpu});
  EXPECT_EQ(choice.operations, "none");
  EXPECT_THAT(choice.why, HasSubstr("rank 1 on host x has no GPU: no driver"));
}

TEST(GpuChoices, WhatIsAskedForIsDoneOrRefused) {
  const std::vector<GpuAssignment> shared = {kFirst, kFirst};
  EXPECT_EQ(choose_gpu_operations(shared, "ipc", 1).operations, "ipc");
  EXPECT_EQ(choose_gpu_operations(shared, "host", 2).operations, "host");
  EXPECT_THROW(choose_gpu_operations(shared, "nccl", 1), UnsupportedError);
  const std::vector<GpuAssignment> one_without = {kFirst, kNoNccl};
  EXPECT_THROW(choose_gpu_operations(one_without, "nccl", 1), UnsupportedError);
  const std::vector<GpuAssignment> none = {kNoGpu};
  EXPECT_THROW(choose_gpu_operations(none, "ipc", 1), UnsupportedError);
}

TEST(GpuChoices, IpcOnSeveralHostsGoesByWayOfTheHostAndSaysSo) {
  const std::vector<GpuAssignment> shared = {kFirst, kFirst};
  const GpuChoice choice = choose_gpu_operations(shared, "ipc", 2);
  EXPECT_EQ(choice.operations, "host");
  EXPECT_THAT(choice.why, HasSubstr("there are 2"));
}

TEST(GpuBackends, WithoutTheModuleAutoIsNoneAndOthersAreRefused) {
  const NcclLibrary without = {nullptr, "libhvd_nccl.so is not there"};
  const auto alone = [](const std::string& mine) { return std::vector{mine}; };
  SelfCollective world;
  Config config;
  config.gpu_operations = "auto";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(connect_gpus(without, {"x", {}, 1}, config, alone, world), nullptr);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("libhvd_nccl.so is not there"));
  config.gpu_operations = "ipc";
  EXPECT_THROW(connect_gpus(without, {"x", {}, 1}, config, alone, world), UnsupportedError);
  for (const BackendInfo& row : gpu_backends(without)) EXPECT_FALSE(row.usable) << row.name;
}

// What a rank finds: a GPU, and an NCCL that may not start.
class FoundModule final : public NcclModule {
 public:
  FoundModule(std::string gpu, std::string nccl_failure)
      : gpu_(std::move(gpu)), nccl_failure_(std::move(nccl_failure)) {}

  bool has_nccl() const override { return true; }
  std::string nccl_detail() const override { return "NCCL of a test"; }
  std::string cuda_version() const override { return "CUDA of a test"; }
  int devices() const override { return 1; }
  std::string describe_devices() const override { return gpu_; }
  std::string device_identity(int) const override { return gpu_; }
  std::string make_id() override { return "id"; }
  std::unique_ptr<Collective> make_collective(const std::string& id, const NcclPlace&) override {
    made += "nccl " + id;
    if (!nccl_failure_.empty()) throw UnsupportedError(nccl_failure_);
    return std::make_unique<SelfCollective>();
  }
  std::unique_ptr<Collective> make_staged_collective(std::unique_ptr<Collective> host,
                                                     const NcclPlace&) override {
    made += "host";
    return host;
  }
  std::unique_ptr<Collective> make_ipc_collective(std::unique_ptr<Collective> host,
                                                  std::unique_ptr<Collective>,
                                                  const NcclPlace&) override {
    made += "ipc";
    return host;
  }
  DeviceMemory& memory() override { throw InternalError("there is none in this test"); }
  CudaStreams& streams() override { throw InternalError("there are none in this test"); }

  std::string made;  // what was asked for

 private:
  const std::string gpu_;
  const std::string nccl_failure_;
};

// Two ranks that connect their GPUs: what each makes, and what it throws.
struct Connected {
  std::string made[2];
  std::string error[2];
  std::string log;
};

Connected connect_two(FoundModule (&modules)[2], const std::string& operations, int hosts) {
  Connected seen;
  SimWorld world(2);
  test::AllGatherPoint meeting(2);
  Config config;
  config.gpu_operations = operations;
  ::testing::internal::CaptureStderr();
  test::run_ranks(2, [&](Rank rank) {
    const auto collective = world.collective(rank);
    const auto tell = meeting.of(rank);
    const Topology place = {.rank = rank, .size = 2};
    try {
      connect_gpus(
          {&modules[rank], "here"}, {"h" + std::to_string(rank), place, hosts}, config,
          [&](const std::string& mine) { return tell(mine, Clock::now() + std::chrono::hours(1)); },
          *collective);
    } catch (const UnsupportedError& error) {
      seen.error[rank] = error.what();
    }
    seen.made[rank] = modules[rank].made;
  });
  seen.log = ::testing::internal::GetCapturedStderr();
  return seen;
}

TEST(GpuBackends, AnNcclThatDoesNotStartOnOneRankIsToldOnAll) {
  FoundModule modules[] = {{"GPU-1", ""}, {"GPU-2", "NCCL could not be initialised: no network"}};
  const Connected seen = connect_two(modules, "nccl", 1);
  for (const std::string& error : seen.error) {
    EXPECT_EQ(error,
              "HVD_GPU_OPERATIONS is nccl here, which failed on rank 1 on host h1: NCCL could not "
              "be initialised: no network");
  }
}

// CUDA's memory is shared inside a host only, and NCCL wants a GPU for each rank.
TEST(GpuBackends, RanksOfSeveralHostsThatShareAGpuGoByWayOfTheHost) {
  for (const char* operations : {"auto", "ipc"}) {
    FoundModule modules[] = {{"GPU-1", ""}, {"GPU-1", ""}};
    const Connected seen = connect_two(modules, operations, 2);
    for (const std::string& made : seen.made) EXPECT_EQ(made, "host");
    for (const std::string& error : seen.error) EXPECT_EQ(error, "");
  }
}

TEST(GpuBackends, WhatIsDoneInsteadOfIpcIsSaid) {
  FoundModule modules[] = {{"GPU-1", ""}, {"GPU-1", ""}};
  EXPECT_THAT(connect_two(modules, "ipc", 2).log,
              HasSubstr("HVD_GPU_OPERATIONS=ipc is host here: HVD_GPU_OPERATIONS=ipc is for the "
                        "ranks of one host, and there are 2"));
}

}  // namespace
}  // namespace hvd::engine
