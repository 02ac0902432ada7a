#include "ops/gpu_backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/base/status.h"
#include "ops/self/self_collective.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;

const GpuClaim kFirst = {.host = "x", .gpu = "GPU-1"};
const GpuClaim kSecond = {.host = "x", .gpu = "GPU-2"};
const GpuClaim kNoGpu = {.host = "x", .problem = "no driver"};
const GpuClaim kNoNccl = {.host = "x", .gpu = "GPU-2", .nccl_problem = "libnccl.so.2 is old"};

GpuChoice automatic(const std::vector<GpuClaim>& claims, int hosts = 1) {
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
  const std::vector<GpuClaim> shared = {kFirst, kFirst};
  EXPECT_EQ(choose_gpu_operations(shared, "ipc", 1).operations, "ipc");
  EXPECT_EQ(choose_gpu_operations(shared, "host", 2).operations, "host");
  EXPECT_THROW(choose_gpu_operations(shared, "nccl", 1), UnsupportedError);
  const std::vector<GpuClaim> one_without = {kFirst, kNoNccl};
  EXPECT_THROW(choose_gpu_operations(one_without, "nccl", 1), UnsupportedError);
  const std::vector<GpuClaim> none = {kNoGpu};
  EXPECT_THROW(choose_gpu_operations(none, "ipc", 1), UnsupportedError);
}

TEST(GpuChoices, IpcOnSeveralHostsGoesByWayOfTheHostAndSaysSo) {
  const std::vector<GpuClaim> shared = {kFirst, kFirst};
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

}  // namespace
}  // namespace hvd
