#include "ops/connect/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/ops/connect/rendezvous_places.h"
#include "test/support/scoped_environment.h"

namespace hvd::engine::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FindMeeting : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) { environment_.set(name, value); }
  static LaunchInfo torchrun(int rank, int size, std::optional<int> local_size = {}) {
    return {"torchrun", rank, size, rank, local_size, false};
  }
  static std::optional<Meeting> find(const LaunchInfo& launch, const std::string& url) {
    Config config;
    config.rendezvous = url;
    return find_meeting(launch, config);
  }
  static Status refusal(const LaunchInfo& launch, const std::string& url) {
    return status_of([&] { find(launch, url); });
  }

 private:
  ScopedEnvironment environment_;
};

TEST_F(FindMeeting, TheSettingSaysWhere) {
  set("HVD_RENDEZVOUS_KEY", "secret");
  const auto tcp = find(torchrun(1, 4), "tcp://localhost:29400");
  EXPECT_EQ(to_string(tcp->point), "tcp://127.0.0.1:29400");
  EXPECT_EQ(tcp->rank, 1);
  EXPECT_EQ(tcp->size, 4);
  EXPECT_EQ(tcp->key, "secret");
  EXPECT_EQ(to_string(find(torchrun(1, 4), "file:///tmp/a b")->point), "file:///tmp/a b");
  EXPECT_EQ(to_string(find(torchrun(1, 4), "unix:job-7")->point), "unix:job-7");
}

TEST_F(FindMeeting, AddressesMayBeOfIPv6AndOfOtherHosts) {
  for (const char* url :
       {"tcp://[fd00::1]:29400", "tcp://10.0.0.7:1", "tcp://node1.example:65535"}) {
    EXPECT_EQ(to_string(find(torchrun(1, 4), url)->point), url);
  }
}

TEST_F(FindMeeting, TorchrunsVariablesMakeANameOfTheirOwnOnOneHost) {
  EXPECT_FALSE(find(torchrun(0, 2), "").has_value());
  set("MASTER_ADDR", "node7");
  set("MASTER_PORT", "29500");
  const MeetingPoint plain = find(torchrun(0, 2, 2), "")->point;
  EXPECT_EQ(plain.kind, MeetingPoint::Kind::kUnix);
  EXPECT_THAT(plain.where, HasSubstr("node7-29500"));
  EXPECT_EQ(find(torchrun(1, 2, 2), "env://")->point.where, plain.where);
  set("TORCHELASTIC_RESTART_COUNT", "1");
  EXPECT_NE(find(torchrun(0, 2, 2), "")->point.where, plain.where);
}

TEST_F(FindMeeting, MasterPortItselfIsForSeveralHosts) {
  set("MASTER_ADDR", "fd00::7");
  set("MASTER_PORT", "29500");
  const MeetingPoint several = find(torchrun(1, 4, 2), "")->point;
  EXPECT_EQ(to_string(several), "tcp://[fd00::7]:29500");
  EXPECT_EQ(several.local, "");
  const MeetingPoint unknown = find(torchrun(1, 4), "")->point;
  EXPECT_EQ(to_string(unknown), "tcp://[fd00::7]:29500");
  EXPECT_EQ(unknown.local, find(torchrun(1, 4, 4), "")->point.where);
  set("MASTER_ADDR", "localhost");  // leads to no other host
  EXPECT_EQ(find(torchrun(1, 4), "")->point.kind, MeetingPoint::Kind::kUnix);
  EXPECT_THAT(refusal(torchrun(1, 4, 2), "").message(), HasSubstr("only ranks of one host"));
}

TEST_F(FindMeeting, TorchrunListensAtMasterPortItself) {
  set("MASTER_ADDR", "node7");
  set("MASTER_PORT", "29500");
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  const Status status = refusal(torchrun(1, 4, 2), "");
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("MASTER_PORT (29500)"), HasSubstr("HVD_RENDEZVOUS=tcp://host:port")));
}

TEST_F(FindMeeting, EnvWithoutItsVariablesIsAnError) {
  EXPECT_THAT(refusal(torchrun(0, 2), "env://").message(), HasSubstr("MASTER_ADDR"));
}

TEST_F(FindMeeting, APlaceOfOneHostIsRefusedOnSeveral) {
  for (const char* url : {"unix:x", "tcp://127.0.0.1:29400", "tcp://[::1]:29400"}) {
    const Status several = refusal(torchrun(0, 4, 2), url);
    EXPECT_EQ(several.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(several.message(),
                AllOf(HasSubstr("2 of 4 ranks"), HasSubstr(url), HasSubstr("hvdrun"),
                      HasSubstr("HVD_RENDEZVOUS=tcp://host:port")));
    EXPECT_TRUE(refusal(torchrun(0, 4, 4), url).ok());
  }
  EXPECT_TRUE(refusal(torchrun(0, 4, 2), "file:///shared/x").ok());
}

TEST_F(FindMeeting, MalformedPlacesAreNamed) {
  const std::string long_name = "unix:" + std::string(200, 'n');
  for (const char* url :
       {"tcp://127.0.0.1", "tcp://:5", "tcp://127.0.0.1:0", "tcp://127.0.0.1:70000",
        "tcp://fd00::1:5", "tcp://[fd00::1]", "tcp://[node]:5", "tcp://127.0.0.1:5x",
        "file://relative", "file://", "unix:", "http://127.0.0.1:5", "x", long_name.c_str()}) {
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
}  // namespace hvd::engine::test
