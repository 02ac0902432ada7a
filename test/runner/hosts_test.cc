#include "runner/plan/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"

namespace hvd::runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseHosts, ReadsSlotsAndTakesOneWhereNoneAreGiven) {
  EXPECT_THAT(parse_hosts("a:2,b,10.0.0.1:16"),
              ElementsAre(HostSlots{"a", 2}, HostSlots{"b", 1}, HostSlots{"10.0.0.1", 16}));
}

TEST(ParseHosts, WritesWhatItReads) {
  EXPECT_EQ(to_string(parse_hosts("a:2,b")), "a:2,b:1");
}

TEST(ParseHosts, SumsSlots) {
  EXPECT_EQ(total_slots(parse_hosts("a:2,b,c:3")), 6);
  EXPECT_EQ(total_slots({}), 0);
}

class BadHosts : public testing::TestWithParam<const char*> {};

TEST_P(BadHosts, AreRefusedNamingTheOption) {
  try {
    parse_hosts(GetParam());
    FAIL() << "accepted '" << GetParam() << "'";
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("-H: "));
  }
}

INSTANTIATE_TEST_SUITE_P(Each, BadHosts,
                         testing::Values("", ":2", "a:0", "a:-1", "a:x", "a:2x", "a:", "a:1,",
                                         ",a:1", "a:1,,b:1", "a b:1", "-oProxyCommand=x:1",
                                         "a:1,-b", "a:1,a:2", "a:1000001",
                                         "a:99999999999999999999"));

TEST(IsLocalHost, KnowsLoopbackAndBothFormsOfTheHostname) {
  EXPECT_TRUE(is_local_host("localhost", "node7.cluster"));
  EXPECT_TRUE(is_local_host("127.0.1.1", "node7.cluster"));
  EXPECT_TRUE(is_local_host("node7.cluster", "node7.cluster"));
  EXPECT_TRUE(is_local_host("node7", "node7.cluster"));
}

TEST(IsLocalHost, IsFalseForOthers) {
  EXPECT_FALSE(is_local_host("node8", "node7"));
  EXPECT_FALSE(is_local_host("node7.elsewhere", "node7.cluster"));
  EXPECT_FALSE(is_local_host("node", "node7"));
  EXPECT_FALSE(is_local_host("10.0.0.1", "node7"));
}

}  // namespace
}  // namespace hvd::runner
