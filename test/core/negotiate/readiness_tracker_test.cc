#include "core/negotiate/readiness_tracker.h"

#include <gtest/gtest.h>

#include "test/core/negotiate/negotiate_builders.h"
#include "test/support/lock_step_cluster.h"

namespace hvd::engine {
namespace {

using test::gradient;
using test::shared;

// Rank 1 of a tree in which ranks 2 and 3 are below it, and 4 below 3.
class ReadinessTrackerTest : public testing::Test {
 protected:
  static constexpr ReadinessTracker::Reporter kTwo = 1;
  static constexpr ReadinessTracker::Reporter kThreeAndFour = 2;

  Tree tree_ = test::trees_of({0, 0, 1, 1, 3})[1];
  ResponseCache cache_;
  ProcessSets sets_{5};
  ReadinessTracker readiness_{tree_, cache_, sets_};
  Announcement complete_;
};

TEST_F(ReadinessTrackerTest, ForwardsASlotOnceEveryReporterAnnouncedIt) {
  cache_.define(0, shared(gradient("w")), false);
  readiness_.add(0, kTwo, 1, complete_);
  readiness_.add(0, kTwo, 1, complete_);
  readiness_.add(0, kThreeAndFour, 1, complete_);
  EXPECT_TRUE(complete_.empty());
  EXPECT_FALSE(readiness_.idle());
  readiness_.add(0, ReadinessTracker::kSelf, 1, complete_);
  EXPECT_EQ(complete_.slots, (std::vector<SlotNumber>{0}));
  EXPECT_TRUE(readiness_.idle());
}

TEST_F(ReadinessTrackerTest, CountsSlotsAndRequestsOfOneNameTogether) {
  cache_.define(0, shared(gradient("w")), false);
  readiness_.add(0, kThreeAndFour, 1, complete_);
  readiness_.add({{gradient("w", 9), 1, 1}}, ReadinessTracker::kSelf, 1, complete_);
  readiness_.add(0, kTwo, 1, complete_);
  EXPECT_TRUE(complete_.slots.empty());
  ASSERT_EQ(complete_.names.size(), 1u);
  EXPECT_EQ(complete_.names[0], (Variants{{gradient("w"), 2, 3}, {gradient("w", 9), 1, 1}}));
}

TEST_F(ReadinessTrackerTest, DropsWhatWasSentBeforeTheEntryThatClearedItsName) {
  cache_.define(0, shared(gradient("w")), false);
  readiness_.add(0, kTwo, 4, complete_);
  readiness_.clear("w", 5);
  cache_.erase(0);
  EXPECT_TRUE(readiness_.idle());
  readiness_.add(0, kThreeAndFour, 4, complete_);
  readiness_.add({{gradient("w"), 2, 1}}, kTwo, 4, complete_);
  EXPECT_TRUE(readiness_.idle());
  readiness_.add({{gradient("w"), 2, 1}}, kTwo, 5, complete_);
  EXPECT_FALSE(readiness_.idle());
}

TEST_F(ReadinessTrackerTest, NamesTheMissingRanksAsPreciselyAsItsChildrenTold) {
  readiness_.add({{gradient("w"), 2, 1}}, kTwo, 1, complete_);
  EXPECT_EQ(readiness_.missing("w"), (std::vector<Rank>{1, 3, 4}));
  readiness_.add(MissingRanks{0, "w", std::chrono::seconds(3), {4}}, kThreeAndFour, 1);
  EXPECT_EQ(readiness_.missing("w"), (std::vector<Rank>{1, 4}));
  ASSERT_EQ(readiness_.waiting().size(), 1u);
  EXPECT_EQ(readiness_.waiting()[0].held, std::chrono::seconds(3));
}

TEST_F(ReadinessTrackerTest, WaitsForANameThatOnlyAChildKnows) {
  readiness_.add(MissingRanks{0, "w", std::chrono::seconds(3), {4}}, kThreeAndFour, 1);
  EXPECT_FALSE(readiness_.idle());
  EXPECT_EQ(readiness_.missing("w"), (std::vector<Rank>{1, 2, 4}));
}

TEST_F(ReadinessTrackerTest, ForgetsWhatAChildToldOnceTheNameIsCompleteOrCleared) {
  cache_.define(0, shared(gradient("w")), false);
  const MissingRanks absence{0, "w", std::chrono::seconds(3), {4}};
  readiness_.add(absence, kThreeAndFour, 1);
  for (const auto from : {kTwo, kThreeAndFour, ReadinessTracker::kSelf})
    readiness_.add(0, from, 1, complete_);
  readiness_.add(0, kTwo, 1, complete_);
  EXPECT_EQ(readiness_.missing("w"), (std::vector<Rank>{1, 3, 4}));
  readiness_.add(absence, kThreeAndFour, 1);
  EXPECT_EQ(readiness_.missing("w"), (std::vector<Rank>{1, 4}));
  readiness_.clear("w", 5);
  readiness_.add(0, kTwo, 5, complete_);
  EXPECT_EQ(readiness_.missing("w"), (std::vector<Rank>{1, 3, 4}));
}

TEST_F(ReadinessTrackerTest, WaitsForMembersOfTheProcessSetAlone) {
  const ProcessSetId set = sets_.add({2, 4});
  readiness_.recount(set, 1, complete_);
  Request request = gradient("s");
  request.set = set;
  EXPECT_EQ(readiness_.weight(ReadinessTracker::kSelf, set), 0);
  EXPECT_EQ(readiness_.weight(kThreeAndFour, set), 1);
  readiness_.add({{request, 2, 1}}, kTwo, 1, complete_);
  EXPECT_EQ(readiness_.missing("s"), (std::vector<Rank>{4}));
  EXPECT_EQ(readiness_.set_of("s"), set);
  readiness_.add({{request, 4, 1}}, kThreeAndFour, 1, complete_);
  EXPECT_EQ(complete_.names, (std::vector<Variants>{{{request, 2, 2}}}));
}

TEST_F(ReadinessTrackerTest, CompletesWhatWaitedOnlyForARankThatJoins) {
  cache_.define(0, shared(gradient("w")), false);
  for (const auto from : {ReadinessTracker::kSelf, kThreeAndFour}) {
    readiness_.add(0, from, 1, complete_);
    readiness_.add({{gradient("v"), 1, readiness_.weight(from, kWorldSet)}}, from, 1, complete_);
  }
  readiness_.add({{gradient("u"), 1, 1}}, ReadinessTracker::kSelf, 1, complete_);
  sets_.join(kWorldSet, 2, false);
  readiness_.recount(kWorldSet, 2, complete_);
  EXPECT_EQ(complete_.slots, (std::vector<SlotNumber>{0}));
  EXPECT_EQ(complete_.names, (std::vector<Variants>{{{gradient("v"), 1, 3}}}));
  EXPECT_EQ(readiness_.missing("u"), (std::vector<Rank>{3, 4}));
}

TEST_F(ReadinessTrackerTest, DropsWhatAChildSaidIsMissingBeforeItKnewWhoIsExpected) {
  const MissingRanks absence{0, "w", std::chrono::seconds(3), {2}};
  sets_.join(kWorldSet, 2, false);
  readiness_.recount(kWorldSet, 7, complete_);
  EXPECT_FALSE(readiness_.add(absence, kTwo, 7)) << "nobody is expected there";
  EXPECT_FALSE(readiness_.add(absence, kThreeAndFour, 6)) << "from before the join";
  EXPECT_TRUE(readiness_.idle());
  EXPECT_TRUE(readiness_.add(absence, kThreeAndFour, 7));
}

TEST_F(ReadinessTrackerTest, DropsWhatAChildSaidIsMissingBeforeAnEviction) {
  cache_.define(0, shared(gradient("w")), false);
  readiness_.clear("w", 5);
  cache_.erase(0);
  EXPECT_FALSE(readiness_.add(MissingRanks{0, "w", std::chrono::seconds(3), {2}}, kTwo, 4));
  EXPECT_TRUE(readiness_.idle());
}

}  // namespace
}  // namespace hvd::engine
