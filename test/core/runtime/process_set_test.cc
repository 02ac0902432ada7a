#include "core/runtime/process_set.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

TEST(SetMembers, NumbersItsRanksInOrder) {
  const SetMembers set = {3, {1, 4, 7}};
  EXPECT_EQ(set.size(), 3);
  EXPECT_TRUE(set.has(4));
  EXPECT_FALSE(set.has(0));
  EXPECT_EQ(set.position_of(1), 0);
  EXPECT_EQ(set.position_of(7), 2);
  EXPECT_THROW(set.position_of(2), InvalidArgumentError);
}

TEST(SetRegistry, BeginWithTheWorld) {
  const SetRegistry sets(3);
  EXPECT_EQ(sets.ids(), (std::vector<ProcessSetId>{kWorldSet}));
  EXPECT_EQ(sets.find(kWorldSet)->ranks, (std::vector<Rank>{0, 1, 2}));
}

TEST(SetRegistry, KnowWhatWasAddedUntilItIsRemoved) {
  SetRegistry sets(3);
  EXPECT_THROW(sets.find(1), InvalidArgumentError);
  sets.add(std::make_shared<const SetMembers>(SetMembers{1, {0, 2}}));
  const ProcessSetPtr found = sets.find(1);
  EXPECT_EQ(sets.ids(), (std::vector<ProcessSetId>{0, 1}));
  sets.remove(1);
  EXPECT_THROW(sets.find(1), InvalidArgumentError);
  EXPECT_EQ(found->ranks, (std::vector<Rank>{0, 2}));  // who has it keeps it
}

TEST(SetRegistry, AreReadWhileOthersAreAdded) {
  SetRegistry sets(2);
  std::jthread reader([&] {
    while (sets.ids().size() < 50) EXPECT_EQ(sets.find(kWorldSet)->size(), 2);
  });
  for (ProcessSetId id = 1; id < 50; ++id) {
    sets.add(std::make_shared<const SetMembers>(SetMembers{id, {0}}));
  }
}

}  // namespace
}  // namespace hvd::engine
