// How ranks meet, over a rendezvous as they use it.
#include "ops/connect/host_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/connect/introduction.h"
#include "test/ops/connect/other_values.h"
#include "test/ops/connect/rendezvous_places.h"
#include "test/support/run_ranks.h"

namespace hvd::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Met {
  Status status;
  HostTopology here;
  Config config;
};

// One rank a Config.
std::vector<Met> meet_with(const std::vector<Config>& configs, std::span<const Term> arguments = {},
                           const MeetingPoint& point = unix_point()) {
  std::vector<Met> met(configs.size());
  run_ranks(static_cast<int>(configs.size()), [&](Rank rank) {
    Met& mine = met[static_cast<std::size_t>(rank)];
    mine.config = configs[static_cast<std::size_t>(rank)];
    mine.status = status_of([&] {
      const auto others =
          attend({point, rank, static_cast<int>(configs.size()), "a key of sixteen"}, in(kPlenty));
      mine.here = meet(*others, mine.config, arguments, in(kPlenty));
    });
  });
  return met;
}

TEST(HostTopology, HasTheProcessesOfItsHost) {
  Config elsewhere;
  elsewhere.hostname = "elsewhere";
  const auto met = meet_with({{}, elsewhere, {}});
  for (const Met& each : met) EXPECT_EQ(each.status, Status());
  EXPECT_EQ(met[0].here.placement.host_of, (std::vector{0, 1, 0}));
  EXPECT_EQ(met[2].here.processes, (std::vector{this_process(), this_process()}));
  EXPECT_TRUE(met[0].here.shm);
  EXPECT_FALSE(met[1].here.shm);
}

class EqualSettingAt : public ::testing::TestWithParam<SettingInfo> {};

TEST_P(EqualSettingAt, EndsTheMeetingOnBothRanksWithTheSameText) {
  for (const MeetingPoint& point : {unix_point(), tcp_point(), file_point()}) {
    Config other;
    take_from_rank_zero(other, GetParam().name, other_value(GetParam()));
    const auto met = meet_with({{}, other}, {}, point);
    for (const Met& each : met) {
      EXPECT_EQ(each.status.code(), StatusCode::kInvalidArgument);
      EXPECT_EQ(each.status.message(), met[0].status.message());
      EXPECT_THAT(each.status.message(),
                  AllOf(HasSubstr(GetParam().name), HasSubstr("on rank 0"),
                        HasSubstr("'" + other_value(GetParam()) + "' on rank 1")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HostTopology, EqualSettingAt,
                         ::testing::ValuesIn(settings_with(Agreement::kEqual)), NameOfSetting());

TEST(HostTopology, LeavesEachRankItsOwnAndTakesRankZerosElse) {
  Config first;
  first.fusion_threshold = 42;
  first.stall_limit = std::chrono::milliseconds(1'234);
  first.start_timeout = std::chrono::seconds(11);
  Config second;
  second.start_timeout = std::chrono::seconds(22);
  second.log_level = LogLevel::kError;
  const auto met = meet_with({first, second});
  for (const Met& each : met) {
    EXPECT_EQ(each.status, Status());
    EXPECT_EQ(each.config.fusion_threshold, 42u);
    EXPECT_EQ(each.config.stall_limit, std::chrono::milliseconds(1'234));
  }
  EXPECT_EQ(met[1].config.start_timeout, std::chrono::seconds(22));
  EXPECT_EQ(met[1].config.log_level, LogLevel::kError);
}

// A rank that says who it is in its own words.
std::vector<Status> meet_one_that_says(const std::string& text) {
  const MeetingPoint point = unix_point();
  std::vector<Status> statuses(2);
  run_ranks(2, [&](Rank rank) {
    statuses[static_cast<std::size_t>(rank)] = status_of([&] {
      const auto others = attend({point, rank, 2, ""}, in(kPlenty));
      Config config;
      if (rank == 0) meet(*others, config, {}, in(kPlenty));
      if (rank == 1) decode_introductions(others->all_gather(text, in(kPlenty)));
    });
  });
  return statuses;
}

TEST(HostTopology, RefusesAnotherBuildOnEveryRank) {
  Introduction other{"0.0.9-000000000000", "h", "h", this_process(), {}};
  const auto statuses = meet_one_that_says(encode(other));
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message(), statuses[0].message());
    EXPECT_THAT(status.message(), AllOf(HasSubstr("0.0.9-000000000000 on rank(s) 1"),
                                        HasSubstr(build_and_layout() + " on rank(s) 0")));
  }
}

}  // namespace
}  // namespace hvd::test
