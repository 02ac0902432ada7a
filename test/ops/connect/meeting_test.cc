#include "ops/connect/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/ops/connect/rendezvous_places.h"
#include "test/support/scoped_environment.h"

namespace hvd::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FindMeeting : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) { environment_.set(name, value); }
  static LaunchInfo torchrun(int rank, int size, std::optional<int> local_size = {}) {
    return {"torchrun", rank, size, rank, local_size, false};
  }
  static Status refusal(const LaunchInfo& launch, const std::string& url) {
    return status_of([&] { find_meeting(launch, url); });
  }

 private:
  ScopedEnvironment environment_;
};

TEST_F(FindMeeting, TheSettingSaysWhere) {
  set("HVD_RENDEZVOUS_KEY", "secret");
  const auto tcp = find_meeting(torchrun(1, 4), "tcp://localhost:29400");
  EXPECT_EQ(to_string(tcp->point), "tcp://127.0.0.1:29400");
  EXPECT_EQ(tcp->rank, 1);
  EXPECT_EQ(tcp->size, 4);
  EXPECT_EQ(tcp->key, "secret");
  EXPECT_EQ(to_string(find_meeting(torchrun(1, 4), "file:///tmp/a b")->point), "file:///tmp/a b");
  EXPECT_EQ(to_string(find_meeting(torchrun(1, 4), "unix:job-7")->point), "unix:job-7");
}

TEST_F(FindMeeting, TorchrunsVariablesMakeANameOfTheirOwn) {
  EXPECT_FALSE(find_meeting(torchrun(0, 2), "").has_value());
  set("MASTER_ADDR", "node7");
  set("MASTER_PORT", "29500");
  const MeetingPoint plain = find_meeting(torchrun(0, 2), "")->point;
  EXPECT_EQ(plain.kind, MeetingPoint::Kind::kUnix);
  EXPECT_THAT(plain.where, HasSubstr("node7-29500"));
  EXPECT_EQ(find_meeting(torchrun(1, 2), "env://")->point.where, plain.where);
  set("TORCHELASTIC_RESTART_COUNT", "1");
  EXPECT_NE(find_meeting(torchrun(0, 2), "")->point.where, plain.where);
}

TEST_F(FindMeeting, EnvWithoutItsVariablesIsAnError) {
  EXPECT_THAT(refusal(torchrun(0, 2), "env://").message(), HasSubstr("MASTER_ADDR"));
}

TEST_F(FindMeeting, RanksOnSeveralMachinesAreSentToHvdrun) {
  const Status several = refusal(torchrun(0, 4, 2), "unix:x");
  EXPECT_EQ(several.code(), StatusCode::kUnsupported);
  EXPECT_THAT(several.message(), AllOf(HasSubstr("2 of 4 ranks"), HasSubstr("hvdrun")));
  EXPECT_TRUE(refusal(torchrun(0, 4, 4), "unix:x").ok());
  const Status remote = refusal(torchrun(0, 4), "tcp://10.0.0.7:29400");
  EXPECT_EQ(remote.code(), StatusCode::kUnsupported);
  EXPECT_THAT(remote.message(), AllOf(HasSubstr("10.0.0.7"), HasSubstr("hvdrun")));
}

TEST_F(FindMeeting, MalformedPlacesAreNamed) {
  const std::string long_name = "unix:" + std::string(200, 'n');
  for (const char* url : {"tcp://127.0.0.1", "tcp://:5", "tcp://127.0.0.1:0",
                          "tcp://127.0.0.1:70000", "tcp://127.0.0.1:5x", "file://relative",
                          "file://", "unix:", "http://127.0.0.1:5", "x", long_name.c_str()}) {
    const Status status = refusal(torchrun(0, 2), url);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("HVD_RENDEZVOUS"), HasSubstr(url)));
  }
}

TEST_F(FindMeeting, RanksThatCannotBeAreNamed) {
  for (const auto& [rank, size] : {std::pair(2, 2), std::pair(-1, 2), std::pair(0, 0)}) {
    const Status status = refusal(torchrun(rank, size), "unix:x");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(rank) + " of "));
  }
  EXPECT_THAT(refusal({"hvdrun", {}, 2, {}, {}, false}, "unix:x").message(),
              HasSubstr("hvdrun started this process as rank ? of 2"));
}

}  // namespace
}  // namespace hvd::test
