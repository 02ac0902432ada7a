#include "core/runtime/callback_queue.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/runtime/completion.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/run_ranks.h"
#include "test/support/threads.h"

namespace hvd::engine {
namespace {

using test::allreduce;
using test::shared;
using test::SimRanks;

TEST(CallbackQueue, HasNoThreadUntilItIsNeeded) {
  const std::size_t before = test::thread_count();
  { const CallbackQueue queue; }
  EXPECT_EQ(test::thread_count(), before);
}

TEST(CallbackQueue, CallsInOrderOnAThreadOfItsOwnAndAllBeforeItGoes) {
  std::vector<int> called;
  std::thread::id thread;
  {
    CallbackQueue queue;
    for (int i = 0; i < 100; ++i) queue.push([&, i] { called.push_back(i); });
    queue.push([&] { thread = std::this_thread::get_id(); });
  }
  ASSERT_EQ(called.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(called[static_cast<std::size_t>(i)], i);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(CallbackQueue, GoesOnAfterAnException) {
  std::atomic<int> called{0};
  testing::internal::CaptureStderr();
  {
    CallbackQueue queue;
    queue.push([] { throw std::runtime_error("no such key"); });
    queue.push([&] { ++called; });
  }
  EXPECT_EQ(called, 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("no such key"), std::string::npos);
}

// As Python ends threads that take the interpreter's lock while it ends.
TEST(CallbackQueue, GoesOnAfterACallbackThatEndsItsThread) {
  std::atomic<int> called{0};
  {
    CallbackQueue queue;
    queue.push([] { pthread_exit(nullptr); });
    queue.push([&] { ++called; });
    queue.push([] { pthread_exit(nullptr); });
    queue.push([&] { ++called; });
  }
  EXPECT_EQ(called, 2);
}

TEST(CallbackQueue, LeavesAThreadBehindThatIsStuckAndStillCallsTheRest) {
  std::promise<void> gate, rest;
  {
    CallbackQueue queue;
    queue.push([&] { gate.get_future().wait(); });
    queue.push([&] { rest.set_value(); });
  }
  gate.set_value();
  rest.get_future().wait();
}

TEST(CallbackQueue, MayBeDestroyedByACallback) {
  std::promise<void> rest;
  auto queue = std::make_shared<CallbackQueue>();
  std::promise<void> dropped;
  queue->push([&, last = queue] { dropped.get_future().wait(); });
  queue->push([&] { rest.set_value(); });
  queue.reset();
  dropped.set_value();
  rest.get_future().wait();
}

TEST(HandleThen, IsCalledOnceForEachCallWheneverItWasGiven) {
  std::atomic<int> called{0};
  {
    const auto completion = std::make_shared<Completion>();
    const Handle handle(completion);
    const auto queue = std::make_shared<CallbackQueue>();  // calls all before the others end
    handle.then(queue, [&] { called += handle.done() ? 1 : 1000; });
    handle.then(queue, [&] { called += 10; });
    EXPECT_EQ(called, 0);
    completion->finish({StatusCode::kMismatch, "shapes differ"});
    completion->finish({});
    handle.then(queue, [&] { called += 100; });
    Handle().then(queue, [&] { called += 200; });
  }
  EXPECT_EQ(called, 311);
}

TEST(HandleThen, MissesNoEndThatComesAtTheSameTime) {
  std::atomic<int> called{0};
  const int rounds = 2000;
  {
    const auto queue = std::make_shared<CallbackQueue>();
    for (int i = 0; i < rounds; ++i) {
      const auto completion = std::make_shared<Completion>();
      std::atomic<int> ready{0};
      const auto meet = [&] {
        for (++ready; ready < 2;) std::this_thread::yield();
      };
      std::jthread other([&] {
        meet();
        completion->finish({});
      });
      meet();
      Handle(completion).then(queue, [&] { ++called; });
    }
  }
  EXPECT_EQ(called, rounds);
}

// What each of many callbacks found when this rank had left, or lost the others.
std::vector<std::string> ends_of(const std::function<void(SimRanks&)>& end) {
  std::vector<std::string> ends(20, "not called");
  SimRanks ranks(2);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Handle handle = ranks[0].submit(allreduce("x" + std::to_string(i), shared<float>({1})));
    handle.then(ranks[0].callbacks(), [&ends, handle, i] {
      ends[i] = ends[i] == "not called" ? test::error_of(handle) : "called twice";
    });
  }
  end(ranks);
  ranks.runtimes.clear();
  return ends;
}

TEST(HandleThen, IsCalledWhenThisRankShutsDown) {
  for (const std::string& text : ends_of([](SimRanks& ranks) { ranks[0].shutdown(); })) {
    EXPECT_NE(text.find("shut"), std::string::npos) << text;
  }
}

TEST(HandleThen, IsCalledWhenAPeerIsLost) {
  const auto lose = [](SimRanks& ranks) {
    ranks.world.kill(1);
    while (ranks[0].stopped().ok()) std::this_thread::yield();
  };
  for (const std::string& text : ends_of(lose)) {
    EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  }
}

// The thread that calls what stalls are reported to may wait for a lock that the program holds
// until its operations end.
TEST(HandleThen, DoesNotWaitForOtherCallbacksOfTheProgram) {
  std::promise<void> entered, ended;
  SimRanks ranks(2);
  ranks[0].notifier().set_location_callback([&, wait = ended.get_future().share()] {
    entered.set_value();
    wait.wait();
    return "";
  });
  EXPECT_TRUE(ranks[0].notifier().request_location());
  entered.get_future().wait();
  test::run_ranks(2, [&](Rank rank) {
    const Handle handle = ranks[rank].submit(allreduce("x", shared<float>({1})));
    if (rank == 0) handle.then(ranks[0].callbacks(), [&] { ended.set_value(); });
    handle.wait();
  });
}

}  // namespace
}  // namespace hvd::engine
