#include "core/negotiate/process_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "test/core/negotiate/negotiate_builders.h"

namespace hvd::engine {
namespace {

using test::gradient;
using testing::HasSubstr;

TEST(ProcessSets, AreNumberedInOrderAndNumbersAreNotReused) {
  ProcessSets sets(4);
  EXPECT_EQ(sets.add({1, 3}), 1u);
  EXPECT_EQ(sets.add({0}), 2u);
  sets.remove(1);
  EXPECT_FALSE(sets.known(1));
  EXPECT_EQ(sets.add({1, 3}), 3u);
  EXPECT_TRUE(sets.known(2));
  EXPECT_FALSE(sets.known(4));
}

TEST(ProcessSets, KnowTheirRanks) {
  ProcessSets sets(4);
  const ProcessSetId set = sets.add({1, 3});
  EXPECT_EQ(sets.ranks(kWorldSet), (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_EQ(sets.lowest(set), 1);
  EXPECT_TRUE(sets.has(set, 3));
  EXPECT_FALSE(sets.has(set, 2));
  EXPECT_FALSE(sets.has(set, 4));
  EXPECT_FALSE(sets.has(set, -1));
}

TEST(ProcessSets, WhoJoinedIsNotExpectedUntilAllHaveJoined) {
  ProcessSets sets(3);
  EXPECT_FALSE(sets.anyone_joined());
  EXPECT_FALSE(sets.join(kWorldSet, 1, false));
  EXPECT_TRUE(sets.anyone_joined());
  EXPECT_TRUE(sets.joined(kWorldSet, 1));
  EXPECT_FALSE(sets.expects(kWorldSet, 1));
  EXPECT_EQ(sets.joined(kWorldSet), 1);
  EXPECT_EQ(sets.active(kWorldSet), 2);
  EXPECT_FALSE(sets.join(kWorldSet, 0, false));
  EXPECT_TRUE(sets.join(kWorldSet, 2, false));
  EXPECT_FALSE(sets.anyone_joined());
  for (const Rank rank : {0, 1, 2}) EXPECT_TRUE(sets.expects(kWorldSet, rank));
  EXPECT_EQ(sets.divisor(kWorldSet), 3);
}

TEST(ProcessSets, AveragesDivideByWhoContributesOrAskedToBeCounted) {
  ProcessSets sets(4);
  EXPECT_EQ(sets.divisor(kWorldSet), 4);
  sets.join(kWorldSet, 1, false);
  EXPECT_EQ(sets.divisor(kWorldSet), 3);
  sets.join(kWorldSet, 2, true);
  EXPECT_EQ(sets.divisor(kWorldSet), 3);
}

TEST(ProcessSets, ARemovedSetTakesItsJoinsAlong) {
  ProcessSets sets(3);
  const ProcessSetId set = sets.add({0, 1});
  sets.join(set, 0, false);
  sets.remove(set);
  EXPECT_FALSE(sets.anyone_joined());
}

Request broadcast_from(Rank root, ProcessSetId set) {
  Request request = gradient("b");
  request.kind = CollectiveKind::kBroadcast;
  request.root = root;
  request.set = set;
  return request;
}

Request change(CollectiveKind kind, std::vector<std::int32_t> numbers) {
  Request request;
  request.name = "change";
  request.kind = kind;
  request.numbers = std::move(numbers);
  return request;
}

TEST(FaultOf, NamesWhatNoRankMayAskFor) {
  ProcessSets sets(4);
  sets.add({1, 3});
  EXPECT_EQ(fault_of(gradient("w"), sets), "");
  EXPECT_EQ(fault_of(broadcast_from(3, 1), sets), "");
  EXPECT_EQ(fault_of(broadcast_from(2, 1), sets),
            "root rank 2 is not in process set 1, which has ranks 1 and 3");
  EXPECT_EQ(fault_of(broadcast_from(4, 0), sets),
            "root rank 4 is not in the world, which has ranks 0 to 3");
  EXPECT_EQ(fault_of(broadcast_from(0, 2), sets), "there is no process set 2");
  Request request = gradient("w");
  request.prescale = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(fault_of(request, sets), "a scale factor is not finite");
  request = gradient("w");
  request.joins_average = true;
  EXPECT_THAT(fault_of(request, sets), HasSubstr("only a join"));
}

TEST(FaultOf, ChecksDefinitionsOfSets) {
  ProcessSets sets(4);
  sets.add({1, 3});
  const auto add = [&](std::vector<std::int32_t> ranks) {
    return fault_of(change(CollectiveKind::kAddSet, std::move(ranks)), sets);
  };
  EXPECT_EQ(add({0, 3}), "");
  EXPECT_EQ(add({}), "a process set has at least one rank");
  EXPECT_EQ(add({1, 1}), "the ranks [1, 1] are not ascending");
  EXPECT_EQ(add({2, 4}), "rank 4 is not in a world of 4");
  EXPECT_EQ(add({-1, 2}), "rank -1 is not in a world of 4");
  const auto remove = [&](std::vector<std::int32_t> numbers) {
    return fault_of(change(CollectiveKind::kRemoveSet, std::move(numbers)), sets);
  };
  EXPECT_EQ(remove({1}), "");
  EXPECT_EQ(remove({0}), "the world cannot be removed");
  EXPECT_EQ(remove({2}), "there is no process set 2");
  EXPECT_EQ(remove({-1}), "there is no process set -1");
  EXPECT_EQ(remove({1, 1}), "the removal of 2 sets");
  Request inside = change(CollectiveKind::kAddSet, {1});
  inside.set = 1;
  EXPECT_THAT(fault_of(inside, sets), HasSubstr("by the world"));
}

}  // namespace
}  // namespace hvd::engine
