// Request::flagged: ranks may differ in it, and all hear whether any set it.
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "core/negotiate/messages/announcement.h"
#include "test/core/negotiate/negotiate_builders.h"
#include "test/support/lock_step_cluster.h"

namespace hvd::engine {
namespace {

using test::gradient;
using test::LockStepCluster;
using test::trees_of;

Request named(bool flagged) {
  Request request = gradient("a name that is long enough to be seen in a message");
  request.flagged = flagged;
  return request;
}

TEST(Flag, SurvivesTheWireAndTheMerger) {
  Bytes bytes;
  ByteWriter out(bytes);
  serialize(out, named(true));
  ByteReader in(bytes);
  EXPECT_EQ(deserialize<Request>(in), named(true));
  for (const bool first : {false, true}) {
    Variants variants;
    merge(variants, {named(first), 0, 1});
    merge(variants, {named(!first), 1, 1});
    ASSERT_EQ(variants.size(), 1u);
    EXPECT_TRUE(variants[0].request.flagged);
  }
}

class FlagTest : public testing::Test {
 protected:
  // Ranks submit the same, flagged where their bit is set. Whether all hear of a flag.
  bool run(unsigned flagged) {
    const std::size_t before = cluster_.bytes_sent(1);
    for (Rank r = 0; r < cluster_.size(); ++r) cluster_.submit(r, named((flagged >> r & 1) != 0));
    cluster_.settle(random_);
    sent_ = cluster_.bytes_sent(1) - before;
    EXPECT_EQ(cluster_.batches().size(), ++rounds_);
    return cluster_.batches().at(rounds_ - 1).batch.members.front().request->flagged;
  }

  LockStepCluster cluster_{trees_of({0, 0, 1}), {}};
  std::mt19937 random_{7};
  std::size_t sent_ = 0;
  std::uint64_t rounds_ = 0;
};

TEST_F(FlagTest, OfAnyRankIsHeardByAllAndHoldsForOneRun) {
  for (unsigned before = 0; before < 8; ++before) {
    for (unsigned flagged = 0; flagged < 8; ++flagged) {
      EXPECT_EQ(run(before), before != 0);
      EXPECT_EQ(run(flagged), flagged != 0);
    }
  }
}

TEST_F(FlagTest, CostsNothingWhereItIsNotSet) {
  run(0);
  run(0);
  const std::size_t by_slot = sent_;
  run(2);
  EXPECT_GT(sent_, by_slot);
  run(0);  // which all announce in full
  EXPECT_GT(sent_, by_slot);
  run(0);
  EXPECT_EQ(sent_, by_slot);
}

TEST_F(FlagTest, BelongsToAllreducesOnly) {
  Request request = named(true);
  request.kind = CollectiveKind::kBroadcast;
  EXPECT_THROW(cluster_.submit(0, request), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd::engine
