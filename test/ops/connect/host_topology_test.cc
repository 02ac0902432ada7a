// How ranks meet, over a rendezvous as they use it.
#include "ops/connect/host_topology.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "ops/connect/introduction.h"
#include "ops/connect/local_socket.h"
#include "ops/shm/descriptor_message.h"
#include "test/ops/connect/other_values.h"
#include "test/ops/connect/rendezvous_places.h"
#include "test/support/all_gather.h"
#include "test/support/run_ranks.h"

namespace hvd::engine::test {
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
}  // namespace hvd::engine::test

namespace hvd::engine {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

using test::TestRendezvous;
using Texts = test::TestRendezvous::Texts;

constexpr DataSegment::Needs kNeeds = {100'000, 5'000};

HostSharing share(Rendezvous& others, const Placement& placement,
                  TimePoint deadline = Clock::now() + seconds(60)) {
  const std::vector<ProcessId> processes(local_ranks(placement).size(), this_process());
  return share_host(others, {placement, processes}, kNeeds, deadline);
}

Placement on_hosts(Rank rank, const std::vector<std::string>& hosts) {
  return place(rank, hosts, hosts);
}

// What share_host() threw.
std::string refusal(Rendezvous& others, const Placement& placement,
                    TimePoint deadline = Clock::now() + seconds(60)) {
  try {
    share(others, placement, deadline);
  } catch (const UnsupportedError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(HostSharing, GivesTheRanksOfEachHostMemoryAndOneAnothersFiles) {
  const std::vector<std::string> hosts = {"a", "b", "a", "c", "a", "b"};
  const int size = static_cast<int>(hosts.size());
  test::AllGatherPoint point(size);
  test::run_ranks(size, [&](Rank rank) {
    const Placement placement = on_hosts(rank, hosts);
    const std::vector<Rank> locals = local_ranks(placement);
    const int place = topology_of(placement).local_rank;
    TestRendezvous others(point, rank, size);
    HostSharing host = share(others, placement);
    if (locals.size() == 1) {
      EXPECT_EQ(host.memory, nullptr);
      for (int round = 0; round < 2; ++round) point.of(rank)("", Clock::now() + seconds(60));
      return;
    }
    EXPECT_EQ(host.processes.size(), locals.size());
    for (const ProcessHandle& process : host.processes) EXPECT_FALSE(process.ended());
    EXPECT_EQ(host.memory->bytes(), kNeeds.bytes);
    host.memory->data()[place] = static_cast<std::byte>(rank + 1);
    ArenaFiles arenas(std::move(host.arena_files), place);
    const auto mine = arenas.make(100);
    mine->data()[99] = static_cast<std::byte>(rank + 1);
    point.of(rank)("", Clock::now() + seconds(60));
    for (std::size_t other = 0; other < locals.size(); ++other) {
      const auto mark = static_cast<std::byte>(locals[other] + 1);
      EXPECT_EQ(host.memory->data()[other], mark);
      EXPECT_EQ(arenas.open(static_cast<int>(other), 0, 100)->data()[99], mark);
    }
    point.of(rank)("", Clock::now() + seconds(60));
  });
}

// The name of the socket that rank 0 offers, in what it told all ranks.
std::string socket_in(const Texts& texts) {
  const std::size_t begin = texts[0].find("hvd-memory");
  const std::size_t end = texts[0].find_first_not_of("-0123456789abcdef", begin + 10);
  return texts[0].substr(begin, end - begin);
}

TEST(HostSharing, IsNotDisturbedByOtherProgramsAtItsSocket) {
  test::AllGatherPoint point(2);
  std::vector<UniqueFd> others;
  test::run_ranks(2, [&](Rank rank) {
    const auto disturb = [&](const Texts& texts) {
      const std::string socket = socket_in(texts);
      std::string why;
      for (int i = 0; i < 20; ++i) others.push_back(connect_locally(socket, why));  // say nothing
      for (const std::int32_t number : {-5, 0, 1, 7}) {
        others.push_back(connect_locally(socket, why));
        send_descriptors(others.back(), number, {});
      }
      others.push_back(connect_locally(socket, why));
      EXPECT_EQ(write(others.back().get(), "GET / HTTP/1.0", 14), 14);
      EXPECT_EQ(why, "");
    };
    TestRendezvous meeting(point, rank, 2, rank == 1 ? disturb : std::function<void(Texts&)>());
    EXPECT_NE(share(meeting, on_hosts(rank, {"a", "a"})).memory, nullptr);
  });
}

TEST(HostSharing, ThatFailsOnOneRankFailsOnAllWithBothReasons) {
  test::AllGatherPoint point(2);
  test::run_ranks(2, [&](Rank rank) {
    const auto mistake = [](Texts& texts) {
      texts[0].replace(texts[0].find("hvd-memory"), 10, "nobody-too");
    };
    TestRendezvous meeting(point, rank, 2, rank == 1 ? mistake : std::function<void(Texts&)>());
    EXPECT_THAT(refusal(meeting, on_hosts(rank, {"a", "a"}), Clock::now() + seconds(4)),
                AllOf(HasSubstr("rank 0 on host a: did not fetch"), HasSubstr("rank 1 on host a"),
                      HasSubstr("Connection refused")));
  });
}

TEST(HostSharing, IsRefusedBetweenNetworkNamespacesOnAllRanks) {
  test::AllGatherPoint point(3);
  test::run_ranks(3, [&](Rank rank) {
    if (rank == 2 && unshare(CLONE_NEWNET) != 0) {  // of this thread
      GTEST_SKIP() << "this user may not make network namespaces";
    }
    TestRendezvous meeting(point, rank, 3);
    EXPECT_THAT(refusal(meeting, on_hosts(rank, {"a", "b", "b"})),
                AllOf(HasSubstr("rank 1 on host b and rank 2 on host b"),
                      HasSubstr("network namespaces"), HasSubstr("HOROVOD_HOSTNAME")));
  });
}

}  // namespace
}  // namespace hvd::engine
