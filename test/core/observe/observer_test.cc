// What observers are told, and what that tells about fusion and about waking up.

#include "core/observe/observer.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "ops/self/self_backend.h"
#include "test/core/runtime/gated_control_plane.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/attempts.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using test::allgather;
using test::allreduce;
using test::run_ranks;
using test::shared;
using test::SimRanks;

// Events as lines of text.
class Diary {
 public:
  void write(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  // Lines that begin with `event`.
  int count(const std::string& event) {
    int found = 0;
    for (const std::string& line : lines()) found += line.starts_with(event) ? 1 : 0;
    return found;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class Diarist final : public Observer {
 public:
  explicit Diarist(std::shared_ptr<Diary> diary) : diary_(std::move(diary)) {}

  void submitted(const SubmissionInfo& submission) override { note("submitted", submission.name); }
  void negotiated(const BatchInfo& batch) override { note("negotiated", text(batch)); }
  void started(const BatchInfo& batch) override { note("started", text(batch)); }
  void finished(const BatchInfo& batch) override { note("finished", text(batch)); }
  void failed(std::uint64_t, std::string_view name, const Status& why, TimePoint) override {
    note("failed", std::string(name) + " " + name_of(why.code()));
  }
  void stopped(const Status&, bool orderly) override {
    note("stopped", orderly ? "in order" : "by a failure");
  }

 private:
  void note(std::string event, std::string_view what) {
    diary_->write(std::move(event) + " " + std::string(what));
  }
  static std::string text(const BatchInfo& batch) {
    std::string text;
    for (const BatchMemberInfo& member : batch.members) text += std::string(member.name) + ",";
    return text + " " + std::to_string(batch.bytes) + " B";
  }

  std::shared_ptr<Diary> diary_;
};

ObserverList writing_to(const std::shared_ptr<Diary>& diary) {
  return {std::make_shared<Diarist>(diary)};
}

// Ranks of a SimWorld of which rank 0 keeps a diary and passes a gate when it polls.
struct WatchedRanks {
  explicit WatchedRanks(int size, SimOptions options = {}, const Config& config = {})
      : world(size, options) {
    for (Rank rank = 0; rank < size; ++rank) {
      std::vector<std::unique_ptr<Collective>> collectives;
      collectives.push_back(world.collective(rank));
      auto control = world.control_plane(rank);
      if (rank == 0) {
        control = std::make_unique<test::GatedControlPlane>(std::move(control), gate);
      }
      runtimes.push_back(std::make_unique<Runtime>(std::move(control), std::move(collectives),
                                                   config,
                                                   rank == 0 ? writing_to(diary) : ObserverList{}));
    }
  }
  Runtime& operator[](Rank rank) { return *runtimes[static_cast<std::size_t>(rank)]; }

  SimWorld world;
  std::shared_ptr<Diary> diary = std::make_shared<Diary>();
  std::shared_ptr<test::Gate> gate = std::make_shared<test::Gate>();
  std::vector<std::unique_ptr<Runtime>> runtimes;
};

// Six tensors of 24 bytes, submitted at once everywhere.
void sum_six(WatchedRanks& ranks, int size) {
  run_ranks(size, [&](Rank rank) {
    std::vector<Submission> group;
    for (int i = 0; i < 6; ++i) {
      group.push_back(allreduce("t" + std::to_string(i), shared<float>({1, 2, 3, 4, 5, 6})));
    }
    for (const Handle& handle : ranks[rank].submit(std::move(group))) handle.wait();
  });
}

TEST(Observers, SeeTheLifeOfATensor) {
  for (const bool asynchronous : {false, true}) {
    WatchedRanks ranks(2, {.asynchronous = asynchronous});
    run_ranks(2, [&](Rank rank) { ranks[rank].submit(allreduce("x", shared<float>({1}))).wait(); });
    ranks[0].shutdown();
    EXPECT_EQ(ranks.diary->lines(),
              (std::vector<std::string>{"submitted x", "negotiated x, 4 B", "started x, 4 B",
                                        "finished x, 4 B", "stopped in order"}));
  }
}

TEST(Observers, SeeWhatFailed) {
  WatchedRanks ranks(2);
  run_ranks(2, [&](Rank rank) {
    const auto differing = shared<float>(std::vector<float>(static_cast<std::size_t>(rank + 1)));
    EXPECT_THROW(ranks[rank].submit(allreduce("w", differing)).wait(), MismatchError);
  });
  const Handle pending = ranks[0].submit(allreduce("pending", shared<float>({1})));
  ranks[0].shutdown();
  EXPECT_EQ(ranks.diary->lines(),
            (std::vector<std::string>{"submitted w", "failed w kMismatch", "submitted pending",
                                      "stopped in order", "failed pending kAborted"}));
}

TEST(Fusion, OneBatchServesWhatWasSubmittedTogether) {
  WatchedRanks ranks(3);
  sum_six(ranks, 3);
  ranks[0].shutdown();
  EXPECT_EQ(ranks.diary->count("started"), 1);
  EXPECT_EQ(ranks.diary->count("finished t0,t1,t2,t3,t4,t5, 144 B"), 1);
}

TEST(Fusion, AThresholdOfZeroTurnsItOff) {
  Config config;
  config.fusion_threshold = 0;
  WatchedRanks ranks(3, {}, config);
  sum_six(ranks, 3);
  ranks[0].shutdown();
  EXPECT_EQ(ranks.diary->count("finished"), 6);
}

// What becomes ready while rank 0 is held up rides in one batch.
TEST(Fusion, BatchesGrowWhileTheCoordinatorIsBusy) {
  WatchedRanks ranks(2);
  ranks.gate->close();
  ranks.world.control_plane(0)->doorbell().ring();
  ranks.gate->wait_for_visitor();
  std::vector<Handle> handles;
  std::vector<Submission> group;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "t" + std::to_string(i);
    handles.push_back(ranks[0].submit(allreduce(name, shared<float>({1}))));
    group.push_back(allreduce(name, shared<float>({1})));
  }
  for (const Handle& handle : ranks[1].submit(std::move(group))) handles.push_back(handle);
  ranks.gate->open();
  for (const Handle& handle : handles) handle.wait();
  ranks[0].shutdown();
  EXPECT_EQ(ranks.diary->count("started"), 1);
}

// No cycle: who has nothing to do sleeps until somebody rings.
TEST(Coordinator, SleepsWhileThereIsNothingToDo) {
  WatchedRanks ranks(2);
  run_ranks(2, [&](Rank rank) { ranks[rank].submit(allreduce("x", shared<float>({1}))).wait(); });
  const Handle waiting = ranks[0].submit(allreduce("late", shared<float>({1})));
  const auto passes_in_a_while = [&] {
    const int before = ranks.gate->passes();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return ranks.gate->passes() - before;
  };
  const auto none = [](int passes) { return passes == 0; };  // no late message, no heartbeat
  EXPECT_EQ(test::first_good(passes_in_a_while, none), 0);
  ranks[1].submit(allreduce("late", shared<float>({1}))).wait();
  waiting.wait();
}

// A step costs a handful of turns: one to announce, one an answer, one a finish.
TEST(Coordinator, ServesAStepInAHandfulOfTurns) {
  constexpr int kSteps = 200;
  WatchedRanks ranks(2);
  const int before = ranks.gate->passes();
  run_ranks(2, [&](Rank rank) {
    for (int i = 0; i < kSteps; ++i) {
      ranks[rank].submit(allreduce("x", shared<float>({1}))).wait();
    }
  });
  EXPECT_LT(ranks.gate->passes() - before, 20 * kSteps);
}

// ---- a world of one rank

class Solo : public testing::Test {
 protected:
  Solo() {
    std::vector<std::unique_ptr<Collective>> collectives;
    collectives.push_back(std::make_unique<SelfCollective>());
    runtime = std::make_unique<Runtime>(std::make_unique<SelfControlPlane>("here"),
                                        std::move(collectives), Config{}, writing_to(diary));
  }

  std::shared_ptr<Diary> diary = std::make_shared<Diary>();
  std::unique_ptr<Runtime> runtime;
};

TEST_F(Solo, HandlesAreDoneWhenSubmitReturns) {
  const auto values = shared<float>({1, 2});
  const auto average = shared<float>({3});
  const auto rows = shared<double>({1, 2, 3, 4});
  EXPECT_TRUE(runtime->submit(allreduce("sum", values)).done());
  EXPECT_TRUE(runtime->submit(allreduce("average", average, ReduceOp::kAverage)).done());
  EXPECT_TRUE(runtime->submit(test::broadcast("state", values, 0)).done());
  const Handle gather = runtime->submit(allgather("rows", rows, 2));
  EXPECT_TRUE(gather.done());
  EXPECT_EQ(test::gathered<double>(gather.wait()), *rows);
  EXPECT_EQ(gather.wait().results[0].rows_of, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(*values, (std::vector<float>{1, 2}));
  EXPECT_EQ(*average, (std::vector<float>{3}));
  EXPECT_EQ(diary->count("finished"), 4);
}

TEST_F(Solo, RefusesWhatAWorldOfManyRefuses) {
  EXPECT_THROW(runtime->submit(test::broadcast("x", shared<float>({1}), 1)), InvalidArgumentError);
  std::vector<Submission> twice;
  twice.push_back(allreduce("x", shared<float>({1})));
  twice.push_back(allreduce("x", shared<float>({1})));
  EXPECT_THROW(runtime->submit(std::move(twice)), InvalidArgumentError);
  EXPECT_THROW(
      runtime->submit(allreduce("x", shared<float>({1}), ReduceOp::kSum, DeviceKind::kCuda)),
      UnsupportedError);
  runtime->shutdown();
  runtime->shutdown();
  EXPECT_THROW(runtime->submit(allreduce("x", shared<float>({1}))), AbortedError);
  EXPECT_EQ(runtime->stopped().code(), StatusCode::kAborted);
}

TEST_F(Solo, ServesSeveralThreads) {
  run_ranks(4, [&](int thread) {
    for (int i = 0; i < 100; ++i) {
      const auto values = shared<float>({1});
      const std::string name = std::to_string(thread) + "." + std::to_string(i);
      EXPECT_TRUE(runtime->submit(allreduce(name, values)).done());
    }
  });
  EXPECT_EQ(diary->count("submitted"), 400);  // threads that meet share a batch
}

TEST(SoloOverSim, AsynchronousDevicesAreWaitedForByTheHandle) {
  SimRanks ranks(1, {.asynchronous = true, .device = DeviceKind::kCuda});
  const auto values = shared<float>({1, 2});
  const Handle handle =
      ranks[0].submit(allreduce("x", values, ReduceOp::kAverage, DeviceKind::kCuda));
  handle.wait();
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(*values, (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace hvd::engine
