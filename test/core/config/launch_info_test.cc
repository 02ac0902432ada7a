#include "core/config/launch_info.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "core/config/config.h"
#include "test/support/scoped_environment.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const LaunchInfo kRankOne = {"hvdrun", 1, 2, 1, 2, false};

// What a process that has `mark` in its environment is told; "" if the place is its own.
std::string refusal(const LaunchInfo& launch) {
  try {
    take_place(launch);
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

// As if another process had made what this one inherited.
void change_pid_of_mark(ScopedEnvironment& variables) {
  const std::string mark = environment(kRankProcessVariable).value();
  const std::string theirs = std::to_string(getppid()) + mark.substr(mark.find(" "));
  variables.set(kRankProcessVariable, theirs.c_str());
}

TEST(RankProcess, TakesItsPlaceAnyNumberOfTimes) {
  ScopedEnvironment variables;
  variables.unset(kRankProcessVariable);
  EXPECT_EQ(refusal(kRankOne), "");
  EXPECT_EQ(refusal(kRankOne), "");
}

TEST(RankProcess, DoesNotTakeAPlaceThatItInherited) {
  ScopedEnvironment variables;
  variables.unset(kRankProcessVariable);
  take_place(kRankOne);
  change_pid_of_mark(variables);
  EXPECT_THAT(refusal(kRankOne),
              AllOf(HasSubstr("started by rank 1 (pid " + std::to_string(getppid()) + ")"),
                    HasSubstr("HVD_WORLD=self")));
}

TEST(RankProcess, TakesAPlaceThatALauncherInARankGaveIt) {
  ScopedEnvironment variables;
  variables.unset(kRankProcessVariable);
  variables.set("HVD_RENDEZVOUS", "unix:outer");
  take_place(kRankOne);
  change_pid_of_mark(variables);
  variables.set("HVD_RENDEZVOUS", "unix:inner");
  EXPECT_EQ(refusal(kRankOne), "");
}

}  // namespace
}  // namespace hvd
