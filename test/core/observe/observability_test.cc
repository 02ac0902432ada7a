// Everything that watches a job, on real Runtimes.

#include "core/observe/observability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/status.h"
#include "test/core/observe/trace_check.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/attempts.h"
#include "test/support/run_ranks.h"
#include "test/support/temporary_folder.h"

namespace hvd::engine {
namespace {

using nlohmann::json;
using test::allreduce;
using test::run_ranks;
using test::shared;
using testing::HasSubstr;

struct ObservedRanks {
  explicit ObservedRanks(int size, const ObservabilityOptions& options = {}) : world(size) {
    for (Rank rank = 0; rank < size; ++rank) {
      watching.push_back(std::make_unique<Observability>(rank, size, options));
      std::vector<std::unique_ptr<Collective>> collectives;
      collectives.push_back(world.collective(rank));
      runtimes.push_back(std::make_unique<Runtime>(world.control_plane(rank),
                                                   std::move(collectives), Config{},
                                                   watching.back()->observers()));
    }
  }
  Runtime& operator[](Rank rank) { return *runtimes[static_cast<std::size_t>(rank)]; }
  Observability& watch(Rank rank) { return *watching[static_cast<std::size_t>(rank)]; }
  int size() const { return world.size(); }

  void sum(const std::string& name, int steps) {
    run_ranks(size(), [&](Rank rank) {
      for (int step = 0; step < steps; ++step) {
        (*this)[rank].submit(allreduce(name, shared<float>({1, 2, 3, 4}))).wait();
      }
    });
  }
  void shutdown() {
    run_ranks(size(), [&](Rank rank) { (*this)[rank].shutdown(); });
  }

  SimWorld world;
  std::vector<std::unique_ptr<Observability>> watching;
  std::vector<std::unique_ptr<Runtime>> runtimes;
};

class ObservabilityTest : public testing::Test {
 protected:
  json read(const std::string& name) const { return json::parse(folder.read(name)); }

  TemporaryFolder folder;
};

void record_three_ranks(const std::string& path) {
  ObservedRanks ranks(3);
  ranks.watch(0).timeline->start(path);
  ranks.sum("warm", 1);
  // Ranks follow once the log says so.
  const TimePoint limit = Clock::now() + std::chrono::seconds(20);
  do {
    ranks.sum("x", 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (ranks.watch(0).metrics->snapshot().ranks[2].totals.batches < 30 && Clock::now() < limit);
  ranks.sum("last", 1);
  ranks.shutdown();
}

// Rank 0 does not wait long for the final reports of the others.
TEST_F(ObservabilityTest, TheTraceHasAllRanksUpToTheEnd) {
  const auto last_spans_of_a_job = [this] {
    record_three_ranks(folder.file("trace.json"));
    const json trace = read("trace.json");
    test::check_trace(trace);
    std::vector<std::vector<std::string>> spans;
    for (const Rank rank : {0, 1, 2}) spans.push_back(test::spans_of(trace, rank, "last"));
    return spans;
  };
  const auto all = testing::Each(testing::ElementsAre("NEGOTIATE_ALLREDUCE", "QUEUE", "ALLREDUCE"));
  EXPECT_THAT(test::first_good(last_spans_of_a_job,
                               [&](const auto& spans) { return testing::Value(spans, all); }),
              all);
}

TEST_F(ObservabilityTest, ATimelineIsStoppedWhileTheJobGoesOn) {
  const std::string path = folder.file("trace.json");
  ObservedRanks ranks(2);
  for (int round = 0; round < 2; ++round) {
    for (const Rank rank : {0, 1}) ranks.watch(rank).timeline->start(path);
    ranks.sum("x", 20);
    for (const Rank rank : {0, 1}) ranks.watch(rank).timeline->stop();
    ranks.sum("after", 1);
    const json trace = read("trace.json");
    test::check_trace(trace);
    EXPECT_EQ(test::spans_of(trace, 0, "x").size(), 60u);
    EXPECT_TRUE(test::spans_of(trace, 0, "after").empty());
  }
}

// Nor for these.
TEST_F(ObservabilityTest, RankZeroKnowsTheWholeJobAtItsEnd) {
  const auto snapshot_of_a_job = [] {
    ObservedRanks ranks(4);
    ranks.sum("x", 10);
    ranks.shutdown();
    EXPECT_THAT(summary_line(ranks.watch(0).metrics->snapshot()),
                HasSubstr("4 ranks, 10 batches on rank 0"));
    EXPECT_THAT(to_prometheus_text(ranks.watch(3).metrics->snapshot()),
                HasSubstr("horovod_batches_total{rank=\"3\",kind=\"allreduce\"} 10\n"));
    return ranks.watch(0).metrics->snapshot();
  };
  const auto is_whole = [](const MetricsSnapshot& snapshot) {
    return std::ranges::all_of(snapshot.ranks, [](const RankMetrics& rank) {
      return rank.totals.batches == 10 && rank.lateness.batches == 10;
    });
  };
  const MetricsSnapshot snapshot = test::first_good(snapshot_of_a_job, is_whole);
  EXPECT_TRUE(is_whole(snapshot)) << summary_line(snapshot);
  EXPECT_EQ(snapshot.totals.batches, 10u);
  EXPECT_EQ(snapshot.totals.bytes, 160u);
}

TEST_F(ObservabilityTest, TheRankThatOthersWaitForIsNamed) {
  const auto snapshot_of_a_job = [] {
    ObservedRanks ranks(3);
    run_ranks(3, [&](Rank rank) {
      for (int step = 0; step < 5; ++step) {
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        ranks[rank].submit(allreduce("x", shared<float>({1}))).wait();
      }
    });
    ranks.shutdown();
    return ranks.watch(0).metrics->snapshot();
  };
  // Other ranks are late when they get no time.
  const auto names_rank_1 = [](const MetricsSnapshot& snapshot) {
    return snapshot.ranks[1].lateness.total >= std::chrono::milliseconds(100) &&
           summary_line(snapshot).find("slowest rank 1:") != std::string::npos;
  };
  const MetricsSnapshot snapshot = test::first_good(snapshot_of_a_job, names_rank_1);
  EXPECT_TRUE(names_rank_1(snapshot)) << summary_line(snapshot);
  EXPECT_GT(snapshot.exposed, Duration::zero());
}

TEST_F(ObservabilityTest, AFailureLeavesTheLastOperationsOfEachRank) {
  ObservabilityOptions options;
  options.flight_recorder.base = folder.path();
  ObservedRanks ranks(3, options);
  for (Rank rank = 0; rank < 3; ++rank) ranks.watch(rank).recorder->begin("job", false);
  ranks.sum("x", 2);
  const Handle hanging = ranks[0].submit(allreduce("hanging", shared<float>({1})));
  ranks.world.kill(2);
  EXPECT_THROW(hanging.wait(), HorovodInternalError);
  ranks.shutdown();
  const json dump = read("job/flight_recorder.rank0.json");
  EXPECT_EQ(dump["reason"]["code"], "kTransport");
  EXPECT_EQ(dump["operations"].size(), 3u);
  EXPECT_EQ(dump["operations"][0]["state"], "finished");
  EXPECT_EQ(dump["operations"][2]["name"], "hanging");
  EXPECT_EQ(dump["operations"][2]["state"], "submitted");
}

TEST_F(ObservabilityTest, AWorldOfOneIsObservedToo) {
  ObservabilityOptions options;
  options.flight_recorder.base = folder.path();
  ObservedRanks ranks(1, options);
  ranks.watch(0).timeline->start(folder.file("trace.json"));
  ranks.sum("x", 3);
  ranks.watch(0).timeline->stop();
  ranks.watch(0).recorder->dump(folder.file("dump.json"));
  ranks.shutdown();
  EXPECT_EQ(test::spans_of(read("trace.json"), 0, "x").size(), 9u);
  EXPECT_EQ(read("dump.json")["operations"].size(), 3u);
  EXPECT_EQ(ranks.watch(0).metrics->snapshot().totals.batches, 3u);
  EXPECT_THAT(summary_line(ranks.watch(0).metrics->snapshot()), HasSubstr("1 rank, 3 batches"));
}

}  // namespace
}  // namespace hvd::engine
