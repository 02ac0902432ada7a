#include "core/negotiate/stall/unfinished.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint at(int second) {
  return TimePoint(seconds(1000 + second));
}

UnfinishedBatch batch(std::uint64_t number, const std::string& name) {
  return {.number = number, .name = name, .device = {DeviceKind::kCuda, 3}, .since = at(0)};
}

TEST(Unfinished, IsToldByNameDeviceAndAge) {
  UnfinishedBatch fused = batch(1, "w");
  fused.others = 2;
  EXPECT_EQ(describe(std::vector{fused}, at(35)),
            "allreduce \"w\" and 2 more on CUDA device 3, submitted 35 s ago");
  const UnfinishedBatch joined = {.number = 2, .kind = CollectiveKind::kBroadcast, .name = "b"};
  EXPECT_EQ(describe(std::vector{joined}, at(35)), "broadcast \"b\" on the host");
  std::vector<UnfinishedBatch> many;
  for (std::uint64_t i = 0; i < 6; ++i) many.push_back(batch(i, std::string(1, char('a' + i))));
  EXPECT_THAT(describe(many, at(1)), testing::EndsWith("; allreduce \"d\" on CUDA device 3, "
                                                       "submitted 1 s ago; and 2 more batches"));
}

TEST(BatchWatch, WarnsEveryWarningTimeAndGivesUpAtTheLimit) {
  BatchWatch watch(seconds(8), seconds(20));
  const std::vector<UnfinishedBatch> one = {batch(7, "w")};
  std::vector<int> warned;
  for (int second = 0; second < 20; ++second) {
    if (!watch.due(at(second))) continue;
    const BatchWatch::Findings found = watch.check(at(second), one);
    EXPECT_TRUE(found.failure.ok());
    if (!found.warning) continue;
    warned.push_back(second);
    EXPECT_THAT(*found.warning, testing::StartsWith("stalled: allreduce \"w\" on CUDA device 3"));
  }
  EXPECT_EQ(warned, (std::vector<int>{8, 16}));
  EXPECT_EQ(watch.check(at(20), one).failure,
            Status(StatusCode::kStalled,
                   "stalled, giving up: allreduce \"w\" on CUDA device 3, submitted 20 s ago, has "
                   "not ended for 20 s"));
}

TEST(BatchWatch, WhatEndsInTimeIsForgotten) {
  BatchWatch watch(seconds(8), seconds(20));
  for (int second = 0; second < 100; ++second) {
    const auto number = static_cast<std::uint64_t>(second / 5);
    const BatchWatch::Findings found = watch.check(at(second), std::vector{batch(number, "w")});
    EXPECT_FALSE(found.warning);
    EXPECT_TRUE(found.failure.ok());
  }
}

TEST(Drain, TakesTheShorterLimitAndWarnsOnce) {
  const std::vector<UnfinishedBatch> one = {batch(7, "w")};
  Drain drain(at(0), seconds(30), seconds(4));
  EXPECT_EQ(drain.next_deadline(), at(1));
  EXPECT_FALSE(drain.warning(at(0), one));
  EXPECT_EQ(drain.warning(at(1), one),
            "shutting down waits up to 4 s for what is still running: allreduce \"w\" on CUDA "
            "device 3, submitted 1 s ago");
  EXPECT_FALSE(drain.warning(at(3), one));
  EXPECT_FALSE(drain.late(at(3)));
  EXPECT_TRUE(drain.late(at(4)));
  const Status why = drain.give_up({StatusCode::kAborted, "rank 1 left"}, at(4), one);
  EXPECT_EQ(why.code(), StatusCode::kStalled);
  EXPECT_EQ(why.message(),
            "rank 1 left; gave up after 4 s on what was still running: allreduce \"w\" on CUDA "
            "device 3, submitted 4 s ago");
}

TEST(Drain, WithoutAStallLimitItsOwnHolds) {
  Drain drain(at(0), seconds(30), seconds(0));
  EXPECT_EQ(drain.next_deadline(), at(2));
  EXPECT_FALSE(drain.warning(at(2), {}));  // nothing is left to tell of
  EXPECT_EQ(drain.next_deadline(), at(30));
  drain.end_by(at(5));
  EXPECT_TRUE(drain.late(at(5)));
  const Status left = {StatusCode::kAborted, "rank 1 left"};
  EXPECT_EQ(drain.give_up(left, at(5), {}), left);
}

}  // namespace
}  // namespace hvd::engine
