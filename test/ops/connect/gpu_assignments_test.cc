#include "ops/connect/gpu_assignments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/base/fields.h"
#include "core/base/status.h"

namespace hvd::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::vector<GpuAssignment>& claims) {
  try {
    check_gpu_claims(claims, "nccl");
  } catch (const UnsupportedError& error) {
    return error.what();
  }
  return "";
}

TEST(GpuAssignments, AGpuForEachRankIsFine) {
  EXPECT_EQ(refusal({{"x", "GPU-1", ""}, {"x", "GPU-2", ""}}), "");
}

TEST(GpuAssignments, TwoRanksOnOneGpuAreNamed) {
  EXPECT_THAT(
      refusal({{"x", "GPU-1", ""}, {"y", "GPU-2", ""}, {"y", "GPU-3", ""}, {"y", "GPU-2", ""}}),
      AllOf(HasSubstr("ranks 1 and 3 on host y"), HasSubstr("GPU-2"),
            HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(GpuAssignments, ARankWithoutOneSaysWhy) {
  EXPECT_THAT(refusal({{"x", "GPU-1", ""}, {"y", "", "no driver"}}),
              AllOf(HasSubstr("rank 1 on host y"), HasSubstr("no driver")));
}

TEST(GpuAssignments, ByWayOfTheHostTwoRanksMayShareOne) {
  const std::vector<GpuAssignment> claims = {{"x", "GPU-1", ""}, {"x", "GPU-1", ""}};
  EXPECT_NO_THROW(check_gpu_claims(claims, "host"));
}

TEST(GpuAssignments, TravelAsTheyAre) {
  const GpuAssignment sent = {"host", "GPU-1", "why", "which", std::string(128, '\0')};
  const GpuAssignment got = decode_fields<GpuAssignment>(encode_fields(sent));
  EXPECT_EQ(got.host, sent.host);
  EXPECT_EQ(got.gpu, sent.gpu);
  EXPECT_EQ(got.problem, sent.problem);
  EXPECT_EQ(got.nccl_problem, sent.nccl_problem);
  EXPECT_EQ(got.id, sent.id);
  EXPECT_THROW(decode_fields<GpuAssignment>(to_bytes("no claim")), Error);
}

TEST(GpuAssignments, WithoutTheModuleTheProblemIsWhereItWasLookedFor) {
  const GpuAssignment claim = claim_gpu({nullptr, "libhvd_nccl.so is not there"}, "x", {}, {});
  EXPECT_THAT(refusal({claim}), HasSubstr("libhvd_nccl.so is not there"));
}

TEST(GpuAssignments, DevicesAreDealtOutByLocalRankUnlessOneIsShown) {
  EXPECT_EQ(device_for(3, 8), 3);
  EXPECT_EQ(device_for(3, 1), 0);
  EXPECT_EQ(device_for(3, 2), 1);
  EXPECT_THROW(device_for(3, 0), UnsupportedError);
}

}  // namespace
}  // namespace hvd::engine
