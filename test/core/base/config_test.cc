#include "core/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "core/base/dtype.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/tensor_view.h"

namespace hvd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Sets variables for one test and takes them back.
class ConfigTest : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) {
    before_.emplace(name, environment(name));
    ::setenv(name, value, 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }
  std::string error_of_reading() {
    try {
      read_config();
    } catch (const InvalidArgumentError& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(ConfigTest, ReadsTheVariablesOfTheReference) {
  set("HOROVOD_FUSION_THRESHOLD", "0");
  set("HOROVOD_CYCLE_TIME", "2.5");
  set("HOROVOD_STALL_CHECK_TIME_SECONDS", "3");
  const Config config = read_config();
  EXPECT_EQ(config.fusion_threshold, 0u);
  EXPECT_EQ(config.batching_gap, std::chrono::microseconds(2500));
  EXPECT_EQ(config.stall_warning, std::chrono::seconds(3));
}

TEST_F(ConfigTest, AMalformedValueNamesTheVariableAndTheValue) {
  set("HOROVOD_FUSION_THRESHOLD", "64MB");
  EXPECT_THAT(error_of_reading(), AllOf(HasSubstr("HOROVOD_FUSION_THRESHOLD"), HasSubstr("64MB")));
}

TEST_F(ConfigTest, AnUnknownLogLevelIsMalformedAndLoggingGoesOn) {
  set("HOROVOD_LOG_LEVEL", "loud");
  EXPECT_THAT(error_of_reading(), AllOf(HasSubstr("HOROVOD_LOG_LEVEL='loud'"), HasSubstr("debug")));
  EXPECT_EQ(read_log_level(), LogLevel::kWarning);
  set("HOROVOD_LOG_LEVEL", "off");
  EXPECT_EQ(error_of_reading(), "");
  EXPECT_EQ(read_log_level(), LogLevel::kOff);
}

TEST_F(ConfigTest, NegativeAndInfiniteTimesAreMalformed) {
  set("HOROVOD_CYCLE_TIME", "-1");
  EXPECT_THAT(error_of_reading(), HasSubstr("HOROVOD_CYCLE_TIME"));
  set("HOROVOD_CYCLE_TIME", "inf");
  EXPECT_THAT(error_of_reading(), HasSubstr("HOROVOD_CYCLE_TIME"));
}

TEST_F(ConfigTest, DisablingTheStallCheckSetsNoWarning) {
  set("HOROVOD_STALL_CHECK_DISABLE", "1");
  EXPECT_EQ(read_config().stall_warning, Duration::zero());
  set("HOROVOD_STALL_CHECK_DISABLE", "maybe");
  EXPECT_THAT(error_of_reading(), HasSubstr("HOROVOD_STALL_CHECK_DISABLE"));
}

TEST_F(ConfigTest, FindsTheLauncherByItsVariables) {
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "4");
  const LaunchInfo info = read_launch_info();
  EXPECT_EQ(info.launcher, "Open MPI");
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(info.size, 4);
}

TEST_F(ConfigTest, TrustsMpiAboveTheLauncherThatStartedIt) {
  set("HOROVOD_RANK", "0");
  set("HOROVOD_SIZE", "8");
  EXPECT_EQ(read_launch_info().launcher, "hvdrun");
  EXPECT_FALSE(read_launch_info().speaks_mpi);
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "4");
  EXPECT_EQ(read_launch_info().launcher, "Open MPI");
  EXPECT_EQ(read_launch_info().size, 4);
  EXPECT_TRUE(read_launch_info().speaks_mpi);
}

TEST_F(ConfigTest, TheShellOfASlurmAllocationIsNoLauncher) {
  set("SLURM_NTASKS", "4");  // salloc
  EXPECT_EQ(read_launch_info().launcher, "");
  set("SLURM_PROCID", "0");  // a batch script
  set("ENVIRONMENT", "BATCH");
  EXPECT_EQ(read_launch_info().launcher, "");
  set("SLURM_STEP_ID", "0");  // srun in that script
  EXPECT_EQ(read_launch_info().launcher, "Slurm");
  EXPECT_EQ(read_launch_info().size, 4);
}

TEST_F(ConfigTest, ARankWithoutASizeIsNotTorchrun) {
  set("RANK", "3");
  EXPECT_EQ(read_launch_info().launcher, "");
  set("WORLD_SIZE", "4");
  EXPECT_EQ(read_launch_info().launcher, "torchrun");
}

TEST(DTypeNames, RoundTripAndUnknownNamesListTheKnownOnes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    EXPECT_EQ(parse_dtype(name_of(static_cast<DType>(i))), static_cast<DType>(i));
  }
  try {
    parse_dtype("float8");
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("float8"), HasSubstr("bfloat16")));
  }
}

TEST(Shapes, NumelRefusesNegativeExtentsAndOverflow) {
  EXPECT_EQ(numel_of({}), 1);
  EXPECT_EQ(numel_of({2, 0, 3}), 0);
  EXPECT_THROW(numel_of({2, -1}), InvalidArgumentError);
  EXPECT_THROW(numel_of({std::int64_t{1} << 40, std::int64_t{1} << 40}), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd
