#include "ops/net/tcp_control_plane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <filesystem>

#include "test/ops/net/tcp_world.h"
#include "test/support/all_gather.h"
#include "test/support/attempts.h"
#include "test/support/control_plane_contract.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

TEST(ConnectHosts, NeighboursInTheTreeAreConnectedBeforeAnybodyTalks) {
  constexpr int kSize = 6;
  test::AllGatherPoint point(kSize);
  test::run_ranks(kSize, [&](Rank rank) {
    test::TestRendezvous others(point, rank, kSize);
    auto plane = connect_hosts(others, test::one_a_host(rank, kSize), Config{}, nullptr,
                               Clock::now() + seconds(30));
    if (rank == 5) plane->abort({StatusCode::kInternal, "out of cheese"});
    if (rank == 0) {
      EXPECT_THROW(test::next_message(*plane), LostRankError);
    }
    point.of(rank)("", Clock::now() + seconds(30));
  });
}

// What is said while the ranks meet is not enough: who hears it does not know the secret.
TEST(ConnectHosts, OnlyWhoKnowsTheSecretTooHasTheKey) {
  for (const char* secret : {"theirs", "another"}) {
    test::AllGatherPoint point(2);
    test::run_ranks(2, [&](Rank rank) {
      const bool same = std::string(secret) == "theirs";
      try {
        test::TestRendezvous others(point, rank, 2, nullptr, rank == 0 ? "theirs" : secret);
        connect_hosts(others, test::one_a_host(rank, 2), Config{}, nullptr,
                      Clock::now() + (same ? seconds(30) : seconds(1)));
        EXPECT_TRUE(same);
      } catch (const StalledError& error) {
        EXPECT_FALSE(same) << error.what();
      }
    });
  }
}

// Sockets of this process that are given up when so much time goes without an acknowledgement.
int sockets_with_timeout(int milliseconds) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    int limit = 0;
    socklen_t length = sizeof limit;
    const bool is_tcp = getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, &length) == 0;
    count += is_tcp && limit == milliseconds ? 1 : 0;
  }
  return count;
}

TEST(ConnectHosts, TheSettingSaysHowLongAHostMayBeSilent) {
  Config config;
  config.link_timeout = seconds(77);
  test::AllGatherPoint point(2);
  test::run_ranks(2, [&](Rank rank) {
    test::TestRendezvous others(point, rank, 2);
    const auto plane = connect_hosts(others, test::one_a_host(rank, 2), config, nullptr,
                                     Clock::now() + seconds(30));
    point.of(rank)("", Clock::now() + seconds(30));
    EXPECT_EQ(sockets_with_timeout(77'000), 2) << "both ends";
    point.of(rank)("", Clock::now() + seconds(30));
  });
}

TEST(ConnectHosts, AnInterfaceThatOneRankHasNotIsAnErrorOnAll) {
  test::AllGatherPoint point(3);
  test::run_ranks(3, [&](Rank rank) {
    try {
      Config config;
      config.network_interfaces = rank == 1 ? "nosuch0" : "lo";
      test::TestRendezvous others(point, rank, 3);
      connect_hosts(others, test::one_a_host(rank, 3), config, nullptr, Clock::now() + seconds(30));
      ADD_FAILURE() << "rank " << rank << " connected";
    } catch (const UnsupportedError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 on host node1"), HasSubstr("'nosuch0'"),
                                      HasSubstr("HOROVOD_GLOO_IFACE")));
    }
  });
}

// The deadline is that of the connections alone.
class PatientRendezvous final : public test::TestRendezvous {
 public:
  using TestRendezvous::TestRendezvous;
  Texts all_gather(const std::string& mine, TimePoint) override {
    return TestRendezvous::all_gather(mine, Clock::now() + seconds(30));
  }
};

// What ranks 0 and 1 end with. Rank 2 cannot be heard: where it says that it listens leads nowhere,
// and it does not connect.
std::vector<std::string> errors_without_rank_2(Duration limit) {
  std::vector<std::string> errors(2);
  test::AllGatherPoint point(3);
  test::run_ranks(3, [&](Rank rank) {
    PatientRendezvous others(point, rank, 3);
    const TimePoint deadline = Clock::now() + limit;
    if (rank == 2) {
      const auto listeners = listen_on_interfaces("");
      Bytes mine;
      ByteWriter out(mine);
      out.put_string("");
      out.put_string("");
      serialize(out, endpoint_of(listeners, ""));
      const std::string text(reinterpret_cast<const char*>(mine.data()), mine.size());
      others.all_gather(text, deadline);
      others.all_gather("", deadline);
      return;
    }
    try {
      connect_hosts(others, test::one_a_host(rank, 3), Config{}, nullptr, deadline);
      ADD_FAILURE() << "rank " << rank << " connected";
    } catch (const StalledError& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  return errors;
}

TEST(ConnectHosts, ARankThatDoesNotConnectIsNamedOnAll) {
  const auto named_on_all = testing::Each(AllOf(HasSubstr("rank 2 on host node2 has not connected"),
                                                HasSubstr("HOROVOD_START_TIMEOUT")));
  // Too short a limit for ranks 0 and 1 to connect names others.
  const std::vector<std::string> errors =
      test::first_good_within(std::chrono::milliseconds(500), errors_without_rank_2,
                              [&](const auto& each) { return testing::Value(each, named_on_all); });
  EXPECT_THAT(errors, named_on_all);
}

}  // namespace
}  // namespace hvd::engine
