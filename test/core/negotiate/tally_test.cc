#include "core/negotiate/tally.h"

#include <gtest/gtest.h>

#include "test/core/negotiate/negotiate_builders.h"
#include "test/support/lock_step_cluster.h"

namespace hvd {
namespace {

using test::gradient;
using test::shared;

// Rank 1 of a tree in which ranks 2 and 3 are below it, and 4 below 3.
class TallyTest : public testing::Test {
 protected:
  static constexpr Tally::Reporter kTwo = 1;
  static constexpr Tally::Reporter kThreeAndFour = 2;

  Tree tree_ = test::trees_of({0, 0, 1, 1, 3})[1];
  ResponseCache cache_;
  ProcessSets sets_{5};
  Tally tally_{tree_, cache_, sets_};
  Announcement complete_;
};

TEST_F(TallyTest, ForwardsASlotOnceEveryReporterAnnouncedIt) {
  cache_.define(0, shared(gradient("w")), false);
  tally_.add(0, kTwo, 1, complete_);
  tally_.add(0, kTwo, 1, complete_);
  tally_.add(0, kThreeAndFour, 1, complete_);
  EXPECT_TRUE(complete_.empty());
  EXPECT_FALSE(tally_.idle());
  tally_.add(0, Tally::kSelf, 1, complete_);
  EXPECT_EQ(complete_.slots, (std::vector<SlotNumber>{0}));
  EXPECT_TRUE(tally_.idle());
}

TEST_F(TallyTest, CountsSlotsAndRequestsOfOneNameTogether) {
  cache_.define(0, shared(gradient("w")), false);
  tally_.add(0, kThreeAndFour, 1, complete_);
  tally_.add({{gradient("w", 9), 1, 1}}, Tally::kSelf, 1, complete_);
  tally_.add(0, kTwo, 1, complete_);
  EXPECT_TRUE(complete_.slots.empty());
  ASSERT_EQ(complete_.names.size(), 1u);
  EXPECT_EQ(complete_.names[0], (Variants{{gradient("w"), 2, 3}, {gradient("w", 9), 1, 1}}));
}

TEST_F(TallyTest, DropsWhatWasSentBeforeTheEntryThatClearedItsName) {
  cache_.define(0, shared(gradient("w")), false);
  tally_.add(0, kTwo, 4, complete_);
  tally_.clear("w", 5);
  cache_.erase(0);
  EXPECT_TRUE(tally_.idle());
  tally_.add(0, kThreeAndFour, 4, complete_);
  tally_.add({{gradient("w"), 2, 1}}, kTwo, 4, complete_);
  EXPECT_TRUE(tally_.idle());
  tally_.add({{gradient("w"), 2, 1}}, kTwo, 5, complete_);
  EXPECT_FALSE(tally_.idle());
}

TEST_F(TallyTest, NamesTheMissingRanksAsPreciselyAsItsChildrenTold) {
  tally_.add({{gradient("w"), 2, 1}}, kTwo, 1, complete_);
  EXPECT_EQ(tally_.missing("w"), (std::vector<Rank>{1, 3, 4}));
  tally_.add(Absence{0, "w", std::chrono::seconds(3), {4}}, kThreeAndFour, 1);
  EXPECT_EQ(tally_.missing("w"), (std::vector<Rank>{1, 4}));
  ASSERT_EQ(tally_.waiting().size(), 1u);
  EXPECT_EQ(tally_.waiting()[0].before, std::chrono::seconds(3));
}

TEST_F(TallyTest, WaitsForANameThatOnlyAChildKnows) {
  tally_.add(Absence{0, "w", std::chrono::seconds(3), {4}}, kThreeAndFour, 1);
  EXPECT_FALSE(tally_.idle());
  EXPECT_EQ(tally_.missing("w"), (std::vector<Rank>{1, 2, 4}));
}

TEST_F(TallyTest, ForgetsWhatAChildToldOnceTheNameIsCompleteOrCleared) {
  cache_.define(0, shared(gradient("w")), false);
  const Absence absence{0, "w", std::chrono::seconds(3), {4}};
  tally_.add(absence, kThreeAndFour, 1);
  for (const auto from : {kTwo, kThreeAndFour, Tally::kSelf}) tally_.add(0, from, 1, complete_);
  tally_.add(0, kTwo, 1, complete_);
  EXPECT_EQ(tally_.missing("w"), (std::vector<Rank>{1, 3, 4}));
  tally_.add(absence, kThreeAndFour, 1);
  EXPECT_EQ(tally_.missing("w"), (std::vector<Rank>{1, 4}));
  tally_.clear("w", 5);
  tally_.add(0, kTwo, 5, complete_);
  EXPECT_EQ(tally_.missing("w"), (std::vector<Rank>{1, 3, 4}));
}

TEST_F(TallyTest, WaitsForMembersOfTheProcessSetAlone) {
  const ProcessSetId set = sets_.add({2, 4});
  tally_.recount(set, 1, complete_);
  Request request = gradient("s");
  request.set = set;
  EXPECT_EQ(tally_.weight(Tally::kSelf, set), 0);
  EXPECT_EQ(tally_.weight(kThreeAndFour, set), 1);
  tally_.add({{request, 2, 1}}, kTwo, 1, complete_);
  EXPECT_EQ(tally_.missing("s"), (std::vector<Rank>{4}));
  EXPECT_EQ(tally_.set_of("s"), set);
  tally_.add({{request, 4, 1}}, kThreeAndFour, 1, complete_);
  EXPECT_EQ(complete_.names, (std::vector<Variants>{{{request, 2, 2}}}));
}

TEST_F(TallyTest, CompletesWhatWaitedOnlyForARankThatJoins) {
  cache_.define(0, shared(gradient("w")), false);
  for (const auto from : {Tally::kSelf, kThreeAndFour}) {
    tally_.add(0, from, 1, complete_);
    tally_.add({{gradient("v"), 1, tally_.weight(from, kWorldSet)}}, from, 1, complete_);
  }
  tally_.add({{gradient("u"), 1, 1}}, Tally::kSelf, 1, complete_);
  sets_.join(kWorldSet, 2, false);
  tally_.recount(kWorldSet, 2, complete_);
  EXPECT_EQ(complete_.slots, (std::vector<SlotNumber>{0}));
  EXPECT_EQ(complete_.names, (std::vector<Variants>{{{gradient("v"), 1, 3}}}));
  EXPECT_EQ(tally_.missing("u"), (std::vector<Rank>{3, 4}));
}

TEST_F(TallyTest, DropsWhatAChildSaidIsMissingBeforeItKnewWhoIsExpected) {
  const Absence absence{0, "w", std::chrono::seconds(3), {2}};
  sets_.join(kWorldSet, 2, false);
  tally_.recount(kWorldSet, 7, complete_);
  EXPECT_FALSE(tally_.add(absence, kTwo, 7)) << "nobody is expected there";
  EXPECT_FALSE(tally_.add(absence, kThreeAndFour, 6)) << "from before the join";
  EXPECT_TRUE(tally_.idle());
  EXPECT_TRUE(tally_.add(absence, kThreeAndFour, 7));
}

TEST_F(TallyTest, DropsWhatAChildSaidIsMissingBeforeAnEviction) {
  cache_.define(0, shared(gradient("w")), false);
  tally_.clear("w", 5);
  cache_.erase(0);
  EXPECT_FALSE(tally_.add(Absence{0, "w", std::chrono::seconds(3), {2}}, kTwo, 4));
  EXPECT_TRUE(tally_.idle());
}

}  // namespace
}  // namespace hvd
