#include "ops/tcp/connect_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/ops/tcp/tcp_world.h"
#include "test/support/all_gather.h"
#include "test/support/control_plane_contract.h"
#include "test/support/run_ranks.h"

namespace hvd {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

TEST(ConnectHosts, NeighboursInTheTreeAreConnectedBeforeAnybodyTalks) {
  constexpr int kSize = 6;
  test::AllGatherPoint point(kSize);
  test::run_ranks(kSize, [&](Rank rank) {
    auto plane = connect_hosts(test::one_a_host(rank, kSize), "", nullptr, point.of(rank),
                               Clock::now() + seconds(30));
    if (rank == 5) plane->abort({StatusCode::kInternal, "out of cheese"});
    if (rank == 0) {
      EXPECT_THROW(test::next_message(*plane), LostRankError);
    }
    point.of(rank)("", Clock::now() + seconds(30));
  });
}

TEST(ConnectHosts, AnInterfaceThatOneRankHasNotIsAnErrorOnAll) {
  test::AllGatherPoint point(3);
  test::run_ranks(3, [&](Rank rank) {
    try {
      connect_hosts(test::one_a_host(rank, 3), rank == 1 ? "nosuch0" : "lo", nullptr,
                    point.of(rank), Clock::now() + seconds(30));
      ADD_FAILURE() << "rank " << rank << " connected";
    } catch (const UnsupportedError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 on host node1"), HasSubstr("'nosuch0'"),
                                      HasSubstr("HOROVOD_GLOO_IFACE")));
    }
  });
}

// Rank 2 cannot be heard: what it says its door is leads nowhere, and it does not connect.
TEST(ConnectHosts, ARankThatDoesNotConnectIsNamedOnAll) {
  test::AllGatherPoint point(3);
  test::run_ranks(3, [&](Rank rank) {
    const TimePoint deadline = Clock::now() + std::chrono::milliseconds(500);
    if (rank == 2) {
      const TcpDoor door = open_door("");
      Bytes mine;
      ByteWriter out(mine);
      out.put_string("");
      put_endpoint(out, door.endpoint);
      const std::string text(reinterpret_cast<const char*>(mine.data()), mine.size());
      point.of(rank)(text, deadline);
      point.of(rank)("", deadline + seconds(5));
      return;
    }
    try {
      connect_hosts(test::one_a_host(rank, 3), "", nullptr, point.of(rank), deadline);
      ADD_FAILURE() << "rank " << rank << " connected";
    } catch (const StalledError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 2 on host node2 has not connected"),
                                      HasSubstr("HOROVOD_START_TIMEOUT")));
    }
  });
}

}  // namespace
}  // namespace hvd
