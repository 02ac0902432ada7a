#include "core/ports/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd::engine {
namespace {

using ::testing::ElementsAre;

Placement uneven_hosts(Rank rank) {
  const std::vector<std::string> identities = {"b!7", "a!3", "b!7", "b!7", "a!3", "c!1"};
  const std::vector<std::string> names = {"b", "a", "b", "b", "a", "c"};
  return place(rank, identities, names);
}

TEST(Placement, NumbersHostsInTheOrderOfTheirLowestRanks) {
  const Placement placement = uneven_hosts(0);
  EXPECT_THAT(placement.host_of, ElementsAre(0, 1, 0, 0, 1, 2));
  EXPECT_THAT(placement.host_names, ElementsAre("b", "a", "c"));
  EXPECT_EQ(placement.host_name(4), "a");
}

TEST(Placement, CountsOnlyHostsThatHaveThisLocalRankInCrossSize) {
  EXPECT_EQ(topology_of(uneven_hosts(0)), (Topology{0, 6, 0, 3, 0, 3}));
  EXPECT_EQ(topology_of(uneven_hosts(4)), (Topology{4, 6, 1, 2, 1, 2}));
  EXPECT_EQ(topology_of(uneven_hosts(3)), (Topology{3, 6, 2, 3, 0, 1}));
  EXPECT_EQ(topology_of(uneven_hosts(5)), (Topology{5, 6, 0, 1, 2, 3}));
}

TEST(Placement, ListsTheRanksThatShareAHost) {
  EXPECT_THAT(local_ranks(uneven_hosts(2)), ElementsAre(0, 2, 3));
  EXPECT_THAT(local_ranks(uneven_hosts(5)), ElementsAre(5));
}

TEST(Placement, AWorldOfOneIsTheDefault) {
  EXPECT_EQ(topology_of(Placement{}), Topology{});
}

}  // namespace
}  // namespace hvd::engine
