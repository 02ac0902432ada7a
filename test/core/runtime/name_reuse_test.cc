// When a name may be submitted again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/base/status.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/core/runtime/submissions.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using test::allreduce;
using test::run_ranks;
using test::shared;
using test::SimRanks;
using testing::ElementsAre;

TEST(NameReuse, OfAHandleThatIsDroppedIsNeverRefused) {
  for (const bool asynchronous : {false, true}) {
    SimRanks ranks(2, {.asynchronous = asynchronous});
    run_ranks(2, [&](Rank rank) {
      for (int i = 0; i < 300; ++i) ranks[rank].submit(allreduce("x", shared<float>({1})));
      const auto last = shared<float>({1});
      ranks[rank].submit(allreduce("x", last)).wait();
      EXPECT_THAT(*last, ElementsAre(2));
    });
  }
}

// One memory: each call reads what the one before it wrote.
TEST(NameReuse, RunsCallsOfOneNameInTheirOrder) {
  SimRanks ranks(2);
  run_ranks(2, [&](Rank rank) {
    const auto values = shared<float>({1});
    for (int i = 0; i < 9; ++i) ranks[rank].submit(allreduce("x", values));
    ranks[rank].submit(allreduce("x", values)).wait();
    EXPECT_THAT(*values, ElementsAre(1024));
  });
}

// However slow the other ranks are: here they have not even begun.
TEST(NameReuse, UnderAHandleThatIsHeldIsAnErrorUntilItsCallHasEnded) {
  SimRanks ranks(2);
  Handle held = ranks[0].submit(allreduce("x", shared<float>({1})));
  EXPECT_THROW(ranks[0].submit(allreduce("x", shared<float>({1}))), InvalidArgumentError);
  Handle copy = held;
  held = {};
  EXPECT_THROW(ranks[0].submit(allreduce("x", shared<float>({1}))), InvalidArgumentError);
  copy = {};
  const Handle next = ranks[0].submit(allreduce("x", shared<float>({1})));
  EXPECT_FALSE(next.done());
  EXPECT_THROW(ranks[0].submit(allreduce("x", shared<float>({1}))), InvalidArgumentError)
      << "the second is held, though the first is not";
  ranks[1].submit(allreduce("x", shared<float>({1})));
  ranks[1].submit(allreduce("x", shared<float>({1}))).wait();
  next.wait();
  const Handle again = ranks[0].submit(allreduce("x", shared<float>({1})));
  ranks[1].submit(allreduce("x", shared<float>({1}))).wait();
  again.wait();
}

TEST(NameReuse, AJoinEndsAfterCallsThatWaitForTheirName) {
  for (const bool asynchronous : {false, true}) {
    SimRanks ranks(2, {.asynchronous = asynchronous});
    run_ranks(2, [&](Rank rank) {
      for (int round = 0; round < 20; ++round) {
        const auto values = shared<float>({1});
        for (int i = 0; i < 3; ++i) ranks[rank].submit(allreduce("x", values));
        ranks[rank].submit(test::join("join")).wait();
        EXPECT_THAT(*values, ElementsAre(8));
      }
    });
  }
}

// The others may have left when a rank learns that all have joined.
TEST(NameReuse, AJoinEndsWellBeforeTheRanksLeave) {
  for (int round = 0; round < 50; ++round) {
    SimRanks ranks(3);
    run_ranks(3, [&](Rank rank) {
      const auto values = shared<float>({1});
      for (int i = 0; i < 3; ++i) ranks[rank].submit(allreduce("x", values));
      EXPECT_NO_THROW(ranks[rank].submit(test::join("join")).wait());
      EXPECT_THAT(*values, ElementsAre(27));
      ranks[rank].shutdown();
    });
  }
}

TEST(NameReuse, WhatWaitsForItsNameFailsWithTheJob) {
  SimRanks ranks(2);
  ranks[0].submit(allreduce("x", shared<float>({1})));
  const Handle waits = ranks[0].submit(allreduce("x", shared<float>({1})));
  ranks[1].shutdown();
  EXPECT_THROW(waits.wait(), AbortedError);
}

TEST(NameReuse, NeedsNoOtherRank) {
  SimRanks ranks(1);
  const auto values = shared<float>({3});
  for (int i = 0; i < 100; ++i) ranks[0].submit(allreduce("x", values));
  ranks[0].submit(allreduce("x", values)).wait();
  EXPECT_THAT(*values, ElementsAre(3));
}

}  // namespace
}  // namespace hvd::engine
