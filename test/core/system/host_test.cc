#include "core/system/host.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "test/support/scoped_environment.h"

namespace hvd::engine {
namespace {

TEST(JobName, HasDateTimeAndRandomBits) {
  EXPECT_EQ(make_job_name((std::int64_t{1'700'000'000} << 28) | 0xabc), "20231114-221320-0000abc");
  EXPECT_NE(make_job_name(), make_job_name());
  EXPECT_GT(draw_job_number(), 0);
  EXPECT_TRUE(is_job_name(make_job_name()));
}

TEST(JobName, IsNoPath) {
  for (const char* good : {"a", "20231114-221320-0000abc", "slurm_17.4"}) {
    EXPECT_TRUE(is_job_name(good)) << good;
  }
  for (const char* bad : {"", ".", "..", "-x", "a/b", "a b", ".hidden", "a\nb"}) {
    EXPECT_FALSE(is_job_name(bad)) << bad;
  }
  EXPECT_FALSE(is_job_name(std::string(65, 'a')));
}

TEST(FlightRecorderBase, IsWhatTheUserChoseOrTheUsersInTheTemporaryFolder) {
  EXPECT_EQ(flight_recorder_base("/x"), "/x");
  const std::string name = "/horovod_cpp-" + std::to_string(geteuid());
  ScopedEnvironment environment;
  environment.set("TMPDIR", "/nowhere");
  EXPECT_EQ(flight_recorder_base(""), "/tmp" + name);
}

}  // namespace
}  // namespace hvd::engine
