#include "core/runtime/completion.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "core/runtime/wake/waiting.h"

namespace hvd::engine {
namespace {

TEST(Handle, WithoutASubmissionIsDone) {
  const Handle handle;
  EXPECT_TRUE(handle.done());
  EXPECT_TRUE(handle.wait().results.empty());
}

TEST(Handle, ThrowsTheErrorEveryTimeItIsAsked) {
  const auto completion = std::make_shared<Completion>();
  const Handle handle(completion);
  const Handle copy = handle;
  EXPECT_FALSE(handle.done());
  completion->finish({StatusCode::kMismatch, "shapes differ"});
  EXPECT_TRUE(handle.done());
  EXPECT_THROW(handle.wait(), MismatchError);
  EXPECT_THROW(handle.wait(), MismatchError);
  EXPECT_THROW(copy.wait(), MismatchError);
}

TEST(Handle, KeepsItsOutcomeForEveryWaiter) {
  const auto completion = std::make_shared<Completion>();
  const Handle handle(completion);
  std::vector<std::jthread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([handle] {
      EXPECT_EQ(handle.wait().results.at(0).rows_of, (std::vector<std::int64_t>{3, 4}));
      EXPECT_EQ(handle.wait().number, 7);
    });
  }
  Outcome outcome;
  outcome.results = {{.rows_of = {3, 4}}};
  outcome.number = 7;
  completion->finish({}, std::move(outcome));
}

TEST(Handle, WaitsForAWhileAndSaysWhetherItEnded) {
  const auto completion = std::make_shared<Completion>();
  const Handle handle(completion);
  EXPECT_FALSE(handle.wait_for(std::chrono::milliseconds(5)));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    completion->finish(Status());
  });
  EXPECT_TRUE(handle.wait_for(std::chrono::seconds(30)));
  other.join();
}

TEST(Completion, EndsBeforeItWakesWhoWaits) {
  const auto completion = std::make_shared<Completion>();
  EXPECT_TRUE(completion->end({}, {.number = 3}));
  EXPECT_TRUE(completion->done());
  EXPECT_FALSE(completion->end({StatusCode::kAborted, "late"}));
  EXPECT_EQ(Handle(completion).wait().number, 3);
}

TEST(Completion, WakesAThreadThatWaitsOnceItIsTold) {
  const auto completion = std::make_shared<Completion>();
  std::jthread waiter([&] { EXPECT_EQ(Handle(completion).wait().number, 5); });
  while (blocked_threads() == 0) std::this_thread::yield();
  completion->end({}, {.number = 5});
  completion->wake();
}

TEST(Completion, KeepsTheLoopLookingUntilItsCallbackIsDue) {
  Completion completion;
  EXPECT_FALSE(callback_waits());
  completion.then(std::make_shared<CallbackQueue>(), [] {});
  EXPECT_TRUE(callback_waits());
  EXPECT_TRUE(completion.finish({}));
  EXPECT_FALSE(callback_waits());
}

TEST(Completion, TheFirstEndDecides) {
  Completion completion;
  EXPECT_TRUE(completion.finish({StatusCode::kAborted, "first"}));
  EXPECT_FALSE(completion.finish({}));
  EXPECT_THROW(completion.wait(), AbortedError);
}

TEST(Completion, LetsGoOfTensorsOnTheThreadThatWaits) {
  const auto completion = std::make_shared<Completion>();
  std::thread::id dropped_by;
  std::shared_ptr<const void> owner(&dropped_by,
                                    [&](const void*) { dropped_by = std::this_thread::get_id(); });
  Parts parts(1);
  parts[0].input.owner = std::move(owner);
  std::thread([&] { completion->finish({}, {}, std::move(parts)); }).join();
  EXPECT_EQ(dropped_by, std::thread::id());
  completion->wait();
  EXPECT_EQ(dropped_by, std::this_thread::get_id());
}

}  // namespace
}  // namespace hvd::engine
