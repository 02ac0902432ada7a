#include "core/negotiate/sequencer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/core/negotiate/negotiate_builders.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using test::gradient;
using testing::HasSubstr;

class SequencerTest : public testing::Test {
 protected:
  void complete(Sequencer& sequencer, const Request& request) {
    Announcement all;
    all.names = {{{request, 0, 2}}};
    sequencer.take(all);
  }
  // Decides and applies to the cache what is about slots.
  Decision decide(Sequencer& sequencer, Duration since = {}) {
    Decision decision;
    sequencer.decide(TimePoint{} + since, decision);
    for (const Step& step : decision.steps) {
      if (const auto* define = std::get_if<DefineSlot>(&step)) {
        cache_.define(define->slot, define->request, define->once);
      } else if (const auto* evict = std::get_if<EvictSlot>(&step)) {
        cache_.erase(evict->slot);
      } else if (const auto* run = std::get_if<RunSlots>(&step)) {
        for (const SlotNumber slot : decision.slots_of(*run)) {
          if (cache_.once(slot)) cache_.erase(slot);
        }
      }
    }
    return decision;
  }
  template <typename T>
  static int count(const Decision& decision) {
    int n = 0;
    for (const Step& step : decision.steps) n += std::holds_alternative<T>(step) ? 1 : 0;
    return n;
  }
  ResponseCache cache_;
  ProcessSets sets_{2};
  NegotiationSettings settings_;
};

TEST_F(SequencerTest, TellsItsSettingsFirstAndOnce) {
  Sequencer sequencer(settings_, cache_, sets_);
  const Decision first = decide(sequencer);
  ASSERT_EQ(first.steps.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<ChangeSettings>(first.steps[0]));
  EXPECT_TRUE(decide(sequencer).steps.empty());
}

TEST_F(SequencerTest, BatchesGrowWhileCreditIsOut) {
  settings_.batches_in_flight = 1;
  Sequencer sequencer(settings_, cache_, sets_);
  complete(sequencer, gradient("a"));
  EXPECT_EQ(count<RunSlots>(decide(sequencer)), 1);
  complete(sequencer, gradient("b"));
  complete(sequencer, gradient("c"));
  EXPECT_TRUE(decide(sequencer).steps.empty());
  sequencer.finished(0);
  const Decision next = decide(sequencer);
  EXPECT_EQ(count<RunSlots>(next), 1);
  EXPECT_EQ(next.slots.size(), 2u);
}

TEST_F(SequencerTest, HoldsTheBatchingGap) {
  settings_.batching_gap = milliseconds(5);
  Sequencer sequencer(settings_, cache_, sets_);
  complete(sequencer, gradient("a"));
  EXPECT_EQ(count<RunSlots>(decide(sequencer, milliseconds(10))), 1);
  EXPECT_FALSE(sequencer.next_deadline());
  complete(sequencer, gradient("b"));
  EXPECT_EQ(count<RunSlots>(decide(sequencer, milliseconds(14))), 0);
  EXPECT_EQ(sequencer.next_deadline(), TimePoint{} + milliseconds(15));
  EXPECT_EQ(count<RunSlots>(decide(sequencer, milliseconds(15))), 1);
}

TEST_F(SequencerTest, RedefinesTheSlotWhenAllChangedAlike) {
  Sequencer sequencer(settings_, cache_, sets_);
  complete(sequencer, gradient("a", 4));
  decide(sequencer);
  complete(sequencer, gradient("a", 8));
  const Decision next = decide(sequencer);
  EXPECT_EQ(count<EvictSlot>(next), 0);
  EXPECT_EQ(count<DefineSlot>(next), 1);
  EXPECT_EQ(cache_.request(*cache_.find("a")), gradient("a", 8));
}

TEST_F(SequencerTest, EvictsTheLeastRecentlyRunSlotForANewName) {
  settings_.cache_capacity = 2;
  Sequencer sequencer(settings_, cache_, sets_);
  for (const char* name : {"a", "b"}) {
    complete(sequencer, gradient(name));
    decide(sequencer);
  }
  Announcement again;
  again.slots = {*cache_.find("a")};
  sequencer.take(again);
  decide(sequencer);
  complete(sequencer, gradient("c"));
  EXPECT_EQ(count<EvictSlot>(decide(sequencer)), 1);
  EXPECT_TRUE(cache_.find("a"));
  EXPECT_FALSE(cache_.find("b"));
}

TEST_F(SequencerTest, RunsEveryRequestOnItsOwnInDeterministicMode) {
  settings_.deterministic = true;
  Sequencer sequencer(settings_, cache_, sets_);
  Request group = gradient("group");
  group.shapes = {{4}, {8}};
  for (const Request& request : {gradient("a"), gradient("empty", 0), group, gradient("b")}) {
    complete(sequencer, request);
  }
  const Decision all = decide(sequencer);
  EXPECT_EQ(count<RunSlots>(all), 4);
  EXPECT_EQ(all.slots.size(), 4u);
}

TEST_F(SequencerTest, TellsChangedSettingsAndDecidesUnderThem) {
  Sequencer sequencer(settings_, cache_, sets_);
  for (const char* name : {"a", "b", "c"}) {
    complete(sequencer, gradient(name));
    decide(sequencer);
    sequencer.finished(static_cast<std::uint64_t>(name[0] - 'a'));
  }
  settings_.fusion_threshold = 0;
  settings_.cache_capacity = 1;
  sequencer.change(settings_);
  complete(sequencer, gradient("d"));
  complete(sequencer, gradient("e"));
  const Decision next = decide(sequencer);
  ASSERT_TRUE(std::holds_alternative<ChangeSettings>(next.steps.front()));
  EXPECT_EQ(std::get<ChangeSettings>(next.steps.front()).settings.cache_capacity, 1u);
  EXPECT_EQ(count<RunSlots>(next), 2);
  EXPECT_EQ(count<EvictSlot>(next), 4) << "only one slot outlives its run now: that of \"e\"";
}

TEST_F(SequencerTest, BoundsTheBatchesOfEverySetAndDeviceApart) {
  settings_.batches_in_flight = 1;
  sets_.add({0, 1});
  Sequencer sequencer(settings_, cache_, sets_);
  Request of_set = gradient("s");
  of_set.set = 1;
  Request on_device = gradient("d");
  on_device.device = DeviceKind::kCuda;
  for (const Request& request : {gradient("a"), of_set, on_device}) {
    complete(sequencer, request);
    EXPECT_EQ(count<RunSlots>(decide(sequencer)), 1) << request.name;
  }
  of_set.name = "t";
  complete(sequencer, gradient("b"));
  complete(sequencer, of_set);
  EXPECT_EQ(count<RunSlots>(decide(sequencer)), 0);
  Announcement credit;
  credit.finished = {1};
  sequencer.take(credit);
  const Decision next = decide(sequencer);
  ASSERT_EQ(next.slots.size(), 1u);
  EXPECT_EQ(cache_.request(next.slots[0]).name, "t");
}

TEST_F(SequencerTest, AddsAndRemovesSetsWithoutCreditAndInSlotsForOneRun) {
  settings_.batches_in_flight = 1;
  Sequencer sequencer(settings_, cache_, sets_);
  complete(sequencer, gradient("a"));
  decide(sequencer);
  Request add;
  add.name = "add";
  add.kind = CollectiveKind::kAddSet;
  add.numbers = {0};
  complete(sequencer, add);
  EXPECT_EQ(count<RunSlots>(decide(sequencer)), 1);
  EXPECT_FALSE(cache_.find("add"));
  EXPECT_EQ(sequencer.running().size(), 1u);
}

TEST_F(SequencerTest, DecidesJoinsAfterEvictions) {
  settings_.cache_capacity = 1;
  Sequencer sequencer(settings_, cache_, sets_);
  complete(sequencer, gradient("a"));
  decide(sequencer);
  Announcement more;
  more.names = {{{gradient("b"), 0, 2}}};
  more.joined = {{kWorldSet, 1, false}};
  sequencer.take(more);
  const Decision next = decide(sequencer);
  EXPECT_EQ(count<EvictSlot>(next), 1);
  EXPECT_TRUE(std::holds_alternative<JoinRank>(next.steps.back()));
}

TEST_F(SequencerTest, GivesAutomaticNamesASlotForOneRun) {
  settings_.cache_capacity = 1;
  Sequencer sequencer(settings_, cache_, sets_);
  complete(sequencer, gradient("kept"));
  decide(sequencer);
  for (const char* name : {"noname.1", "noname.2"}) {
    Request request = gradient(name);
    request.automatic_name = true;
    complete(sequencer, request);
    EXPECT_EQ(count<EvictSlot>(decide(sequencer)), 0);
    EXPECT_FALSE(cache_.find(name));
  }
  EXPECT_TRUE(cache_.find("kept"));
  EXPECT_EQ(cache_.size(), 2u) << "the second automatic name uses the number of the first";
}

TEST_F(SequencerTest, RejectsADisagreementWithoutCredit) {
  settings_.batches_in_flight = 1;
  Sequencer sequencer(settings_, cache_, sets_);
  complete(sequencer, gradient("a"));
  decide(sequencer);
  Announcement all;
  all.names = {{{gradient("b", 8), 1, 1}, {gradient("b", 4), 0, 1}}};
  sequencer.take(all);
  const Decision next = decide(sequencer);
  ASSERT_EQ(next.steps.size(), 1u);
  EXPECT_EQ(std::get<RejectName>(next.steps[0]).why.message(),
            "'b': ranks disagree about the shape: [4] on rank 0, [8] on rank 1");
}

TEST_F(SequencerTest, RunsWhatIsCompleteBeforeItStopsForARankThatLeft) {
  settings_.batches_in_flight = 1;
  Sequencer sequencer(settings_, cache_, sets_);
  complete(sequencer, gradient("a"));
  decide(sequencer);
  complete(sequencer, gradient("b"));
  sequencer.leave({.rank = 1, .submissions = 1});
  EXPECT_EQ(count<Stop>(decide(sequencer)), 0);
  sequencer.finished(0);
  const Decision last = decide(sequencer);
  ASSERT_EQ(last.steps.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<RunSlots>(last.steps[1]));
  EXPECT_EQ(std::get<Stop>(last.steps[2]).why.message(),
            "rank 1 left the job after 1 submission (it ended, or called shutdown())");
}

}  // namespace
}  // namespace hvd::engine
