// Results that are told of before the device has made them, for who goes on in the device's order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/negotiate/decision.h"
#include "core/runtime/completion.h"
#include "test/core/runtime/watched_device.h"
#include "test/support/message_of.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::fence_at;
using test::Point;
using test::shared;
using test::SimRanks;
using ::testing::HasSubstr;

Outcome numbered(std::int64_t number) {
  return {.results = {{.rows_of = {number}}}, .number = number};
}

TEST(OrderedCompletion, TellsOfItsOutcomeBeforeTheEnd) {
  const auto completion = std::make_shared<Completion>();
  const Handle handle(completion);
  EXPECT_FALSE(handle.ordered_within(Duration::zero()));
  const auto point = std::make_shared<Point>();
  completion->order(fence_at(point), numbered(7));
  EXPECT_TRUE(handle.ordered_within(Duration::zero()));
  EXPECT_FALSE(handle.done());
  EXPECT_FALSE(handle.wait_for(Duration::zero()));
  Fence past;
  EXPECT_EQ(handle.wait_enqueued(past).number, 7);
  EXPECT_FALSE(past.reached());
  EXPECT_TRUE(completion->end({}, numbered(8)));
  EXPECT_EQ(handle.wait().number, 7);
  Fence untouched;
  EXPECT_EQ(handle.wait_enqueued(untouched).results.at(0).rows_of.at(0), 7);
  EXPECT_TRUE(untouched.reached());
}

TEST(OrderedCompletion, MayFailLater) {
  const auto completion = std::make_shared<Completion>();
  const Handle handle(completion);
  completion->order({}, numbered(7));
  EXPECT_TRUE(completion->finish({StatusCode::kTransport, "gone"}));
  EXPECT_FALSE(completion->finish({StatusCode::kAborted, "late"}));
  Fence past;
  EXPECT_THROW(handle.wait_enqueued(past), PeerLostError);
  EXPECT_THROW(handle.wait(), PeerLostError);
}

TEST(OrderedCompletion, IsNoneAfterTheEnd) {
  const auto completion = std::make_shared<Completion>();
  completion->finish({}, numbered(7));
  completion->order(fence_at(std::make_shared<Point>()), numbered(8));
  Fence past;
  EXPECT_EQ(Handle(completion).wait_enqueued(past).number, 7);
  EXPECT_TRUE(past.reached());
}

TEST(OrderedCompletion, OneThreadMayOrderWhileAnotherEnds) {
  for (int round = 0; round < 500; ++round) {
    const auto completion = std::make_shared<Completion>();
    std::jthread orders([&] {
      completion->order({}, numbered(7));
      completion->wake();
    });
    std::jthread ends([&] { completion->finish({}, numbered(8)); });
    std::jthread reads([&] {
      Fence past;
      const Outcome& outcome = Handle(completion).wait_enqueued(past);
      EXPECT_EQ(outcome.results.at(0).rows_of.at(0), outcome.number);
    });
    EXPECT_THAT(Handle(completion).wait().number, ::testing::AnyOf(7, 8));
  }
}

class StreamOrder : public test::AsyncDevice {
 protected:
  StreamOrder() { seen_->in_stream_order = true; }

  static Fence wait_enqueued(const Handle& handle) {
    Fence past;
    handle.wait_enqueued(past);
    return past;
  }
};

TEST_F(StreamOrder, TheHostWaitsUntilAllIsEnqueued) {
  SimRanks ranks = ranks_of(2);
  test::run_ranks(2, [&](Rank rank) {
    const auto values = shared<float>({1});
    const Handle handle = ranks[rank].submit(allreduce("x", values));
    const Fence past = wait_enqueued(handle);
    EXPECT_FALSE(past.reached());
    EXPECT_FALSE(handle.done());
  });
  seen_->point->passed = true;
}

TEST_F(StreamOrder, WhoHasNoStreamWaitsForTheDevice) {
  SimRanks ranks = ranks_of(2);
  std::vector<test::Values<float>> values;
  std::vector<Handle> handles;
  for (Rank rank = 0; rank < 2; ++rank) {
    values.push_back(shared<float>({1}));
    handles.push_back(ranks[rank].submit(allreduce("x", values.back())));
  }
  for (const Handle& handle : handles) wait_enqueued(handle);
  EXPECT_FALSE(handles[0].wait_for(milliseconds(20)));
  seen_->point->passed = true;
  for (const Handle& handle : handles) handle.wait();
  for (const auto& each : values) EXPECT_EQ(each->front(), 2);
}

TEST_F(StreamOrder, AnOrderedNameMayBeSubmittedAgain) {
  SimRanks ranks = ranks_of(2);
  test::run_ranks(2, [&](Rank rank) {
    const auto values = shared<float>({1});
    std::vector<Handle> handles;
    for (int round = 0; round < NegotiationSettings{}.batches_in_flight; ++round) {
      handles.push_back(ranks[rank].submit(allreduce("x", values)));
      wait_enqueued(handles.back());
    }
    if (rank == 0) seen_->point->passed = true;
    for (const Handle& handle : handles) handle.wait();
    EXPECT_EQ(values->front(), 1 << handles.size());
  });
}

TEST_F(StreamOrder, MemoryIsKeptUntilTheDeviceIsPast) {
  SimRanks ranks = ranks_of(2);
  std::vector<std::weak_ptr<std::vector<float>>> memory;
  for (Rank rank = 0; rank < 2; ++rank) memory.push_back({});
  test::run_ranks(2, [&](Rank rank) {
    auto values = shared<float>({1});
    memory[static_cast<std::size_t>(rank)] = values;
    const Handle handle = ranks[rank].submit(allreduce("x", values));
    values.reset();
    wait_enqueued(handle);
  });
  for (const auto& each : memory) EXPECT_FALSE(each.expired());
  seen_->point->passed = true;
  const TimePoint deadline = Clock::now() + seconds(20);
  for (const auto& each : memory) {
    while (!each.expired() && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(each.expired());
  }
}

TEST_F(StreamOrder, ResultsOfTheEngineAreKnownBeforeTheDeviceHasThem) {
  SimRanks ranks = ranks_of(2);
  test::run_ranks(2, [&](Rank rank) {
    const auto values = shared<float>({static_cast<float>(rank)});
    Submission submission = test::submission<float>(
        CollectiveKind::kAllgather, "x", {},
        {.input = test::lease(values, DeviceKind::kCuda), .rows = 1}, DeviceKind::kCuda);
    const Handle handle = ranks[rank].submit(std::move(submission));
    Fence past;
    const Outcome& outcome = handle.wait_enqueued(past);
    EXPECT_EQ(outcome.results.at(0).rows_of, (std::vector<std::int64_t>{1, 1}));
    if (rank == 0) seen_->point->passed = true;
    past.wait();
    const auto* gathered = static_cast<const float*>(outcome.results[0].gathered.view.data);
    EXPECT_EQ(gathered[0], 0);
    EXPECT_EQ(gathered[1], 1);
  });
}

TEST_F(StreamOrder, WhatFailsLaterIsToldByTheNextCallWithTheOperationsName) {
  SimRanks ranks = ranks_of(1);
  wait_enqueued(ranks[0].submit(allreduce("lost", shared<float>({1}))));
  const Handle second = ranks[0].submit(allreduce("kept", shared<float>({1})));
  wait_enqueued(second);
  seen_->point->broken = true;
  seen_->point->passed = true;
  EXPECT_THROW(second.wait(), PeerLostError);
  EXPECT_THAT(message_of<PeerLostError>(
                  [&] { ranks[0].submit(allreduce("next", shared<float>({1}))).wait(); }),
              HasSubstr("allreduce 'lost' on the device: the device is broken"));
}

TEST_F(StreamOrder, AFailureReachesEveryRankWithTheOperationsName) {
  SimRanks ranks = ranks_of(2);
  std::barrier both(2);
  test::run_ranks(2, [&](Rank rank) {
    const Handle handle = ranks[rank].submit(allreduce("lost", shared<float>({1})));
    wait_enqueued(handle);
    both.arrive_and_wait();
    seen_->point->broken = true;
    seen_->point->passed = true;
    EXPECT_THAT(message_of<PeerLostError>([&] { handle.wait(); }),
                HasSubstr("allreduce 'lost' on the device"));
  });
}

TEST_F(StreamOrder, ShutdownWaitsForWhatNobodyWaitsForAnyMore) {
  SimRanks ranks = ranks_of(1);
  wait_enqueued(ranks[0].submit(allreduce("x", shared<float>({1}))));
  const std::jthread passes([&] { seen_->point->passed = true; });
  ranks[0].shutdown();
  EXPECT_TRUE(seen_->point->passed);
}

TEST_F(StreamOrder, CanBeTurnedOff) {
  Config config;
  config.async_completion = false;
  SimRanks ranks = ranks_of(1, config);
  const Handle handle = ranks[0].submit(allreduce("x", shared<float>({1})));
  EXPECT_FALSE(handle.ordered_within(milliseconds(20)));
  seen_->point->passed = true;
  Fence past;
  handle.wait_enqueued(past);
  EXPECT_TRUE(handle.done());
}

}  // namespace
}  // namespace hvd::engine
