#include "core/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/base/status.h"
#include "core/runtime/completion.h"
#include "core/runtime/wake/waiting.h"
#include "test/core/observe/observed_batches.h"

namespace hvd::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::at_us;
using test::batch_of;
using testing::HasSubstr;

void live(Metrics& metrics, std::uint64_t number, std::int64_t announced_us) {
  metrics.finished(batch_of(
      {{1, "a", 48, false, at_us(announced_us)}, {2, "b", 48, false, at_us(announced_us + 2)}},
      number));
}

// Everything that `from` collected reaches rank 0.
void report(Metrics& from, Rank rank, Metrics& root) {
  Bytes bytes;
  from.collect(bytes);
  root.receive({rank, std::nullopt, bytes});
}

TEST(Metrics, SumUpBatchesByKind) {
  Metrics metrics(0, 1);
  live(metrics, 1, 0);
  live(metrics, 2, 4);
  BatchInfo gather = batch_of({{3, "g", 96, false, at_us(1)}}, 3);
  gather.kind = CollectiveKind::kAllgather;
  metrics.finished(gather);
  metrics.failed(4, "x", {StatusCode::kMismatch, "no"}, at_us(50));
  const MetricsSnapshot snapshot = metrics.snapshot();
  EXPECT_EQ(snapshot.totals.batches, 3u);
  EXPECT_EQ(snapshot.totals.tensors, 5u);
  EXPECT_EQ(snapshot.totals.bytes, 3u * 96);
  EXPECT_EQ(snapshot.totals.packed_bytes, 3u * 48);
  EXPECT_EQ(snapshot.totals.negotiate, microseconds(10 + 6 + 9));
  EXPECT_EQ(snapshot.totals.queue, microseconds(3 * 5));
  EXPECT_EQ(snapshot.totals.collective, microseconds(3 * 25));
  EXPECT_EQ(snapshot.totals.pack, microseconds(3 * 3));
  EXPECT_EQ(snapshot.totals.unpack, microseconds(3 * 4));
  EXPECT_EQ(snapshot.failed, 1u);
  EXPECT_EQ(snapshot.by_kind[static_cast<int>(CollectiveKind::kAllreduce)].batches, 2u);
  EXPECT_EQ(snapshot.by_kind[static_cast<int>(CollectiveKind::kAllgather)].batches, 1u);
}

TEST(Metrics, AJoinedRankWaitsForNobody) {
  Metrics metrics(0, 1);
  metrics.finished(batch_of({{0, "a", 0, false, {}}}));
  EXPECT_EQ(metrics.snapshot().totals.negotiate, Duration::zero());
  EXPECT_EQ(metrics.snapshot().negotiate_seconds.counts[0], 0u);
}

TEST(Histogram, BoundsGrowByFour) {
  Histogram histogram(1);
  for (const double value : {0.0, 1.0, 1.5, 4.0, 4.5, 1e30}) histogram.add(value);
  EXPECT_EQ(histogram.counts[0], 2u);
  EXPECT_EQ(histogram.counts[1], 2u);
  EXPECT_EQ(histogram.counts[2], 1u);
  EXPECT_EQ(histogram.counts[Histogram::kBuckets - 1], 1u);
  EXPECT_EQ(histogram.bound(3), 64.0);
}

TEST(Metrics, RankZeroKnowsWhoTheOthersWaitFor) {
  Metrics zero(0, 3);
  Metrics one(1, 3);
  Metrics two(2, 3);
  for (std::uint64_t number = 1; number <= 10; ++number) {
    live(zero, number, 0);
    live(one, number, 8);  // last: 8 us after rank 0
    live(two, number, 3);
  }
  report(one, 1, zero);
  report(two, 2, zero);
  const MetricsSnapshot snapshot = zero.snapshot();
  ASSERT_EQ(snapshot.ranks.size(), 3u);
  EXPECT_EQ(snapshot.ranks[0].lateness.total, Duration::zero());
  EXPECT_EQ(snapshot.ranks[1].lateness.total, microseconds(80));
  EXPECT_EQ(snapshot.ranks[1].lateness.last, 10u);
  EXPECT_EQ(snapshot.ranks[2].lateness.total, microseconds(30));
  EXPECT_EQ(snapshot.ranks[2].totals.bytes, 960u);
  EXPECT_TRUE(one.snapshot().ranks.empty());
  const std::string line = summary_line(snapshot);
  EXPECT_THAT(line, HasSubstr("3 ranks, 10 batches on rank 0"));
  EXPECT_THAT(line, HasSubstr("slowest rank 1: 0.000 s late in 10 batches, last in 10"));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(Summary, IsSixLinesThatAnswerWhoIsSlowAndHowOldTheNumbersAre) {
  MetricsSnapshot snapshot;
  snapshot.size = 2;
  snapshot.age = seconds(10);
  snapshot.totals = {.batches = 4, .tensors = 8, .bytes = 2'000'000};
  snapshot.ranks.resize(2);
  snapshot.ranks[0].totals = snapshot.ranks[1].totals = snapshot.totals;
  snapshot.ranks[0].exposed = seconds(1);
  snapshot.ranks[1].age = milliseconds(300);
  snapshot.ranks[0].lateness = {.batches = 4, .last = 0, .total = milliseconds(5)};
  snapshot.ranks[1].lateness = {.batches = 2, .last = 2, .total = milliseconds(4)};
  EXPECT_EQ(
      summary_text(snapshot),
      "horovod_cpp: 2 ranks, 10.000 s since init()\n"
      "  moved    0.004 GB in 8 batches of 16 tensors, over all ranks; 0.500 MB per batch\n"
      "  exposed  0.500 s per rank, in which the program waited for results: 5.0 % of the time\n"
      "  engine   seconds per rank: negotiate 0.000, queue 0.000, collective 0.000 (of it "
      "packing 0.000)\n"
      "  slowest  rank 1: 2.000 ms late per batch, last in 2 of 2 batches\n"
      "  as of    rank 0 now, rank 1 0.3 s ago");
}

TEST(Summary, OfAnotherRankIsAboutThatRank) {
  MetricsSnapshot snapshot;
  snapshot.rank = 1;
  snapshot.size = 2;
  EXPECT_THAT(summary_text(snapshot), HasSubstr("rank 1 of 2, "));
  EXPECT_THAT(summary_text(snapshot), HasSubstr("slowest  known on rank 0\n"));
  snapshot = {};
  snapshot.ranks.resize(1);
  EXPECT_THAT(summary_text(snapshot), HasSubstr("slowest  one rank waits for no other\n"));
}

TEST(Metrics, RanksHaveAnAgeThatBeginsAnewWithEachReport) {
  Metrics zero(0, 2);
  Metrics one(1, 2);
  live(one, 1, 0);
  const Duration silent = zero.snapshot().ranks[1].age;
  EXPECT_LE(silent, zero.snapshot().ranks[1].age);
  const TimePoint before = Clock::now();
  report(one, 1, zero);
  const Duration age = zero.snapshot().ranks[1].age;
  EXPECT_LE(age, Clock::now() - before);
  EXPECT_EQ(zero.snapshot().ranks[0].age, Duration::zero());
}

TEST(Metrics, AlteredReportsAreRefused) {
  Metrics zero(0, 2);
  Metrics one(1, 2);
  live(one, 1, 0);
  Bytes good;
  one.collect(good);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(zero.receive({1, {}, std::span(good).first(length)}), PeerLostError);
  }
  EXPECT_EQ(zero.snapshot().ranks[1].totals.batches, 0u);
  zero.receive({1, {}, good});
  EXPECT_EQ(zero.snapshot().ranks[1].totals.batches, 1u);
}

TEST(Metrics, TimeBlockedInHandlesIsExposed) {
  Metrics metrics(0, 1);
  Completion completion;
  std::thread finisher([&] {
    while (blocked_threads() == 0) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
    completion.finish({});
  });
  completion.wait();
  finisher.join();
  const Duration exposed = metrics.snapshot().exposed;
  EXPECT_GE(exposed, milliseconds(20));
  completion.wait();  // done: blocks nobody
  EXPECT_EQ(metrics.snapshot().exposed, exposed);
}

TEST(Metrics, PrometheusReadsThem) {
  Metrics zero(0, 2);
  Metrics one(1, 2);
  live(zero, 1, 0);
  live(one, 1, 4);
  report(one, 1, zero);
  const std::string text = to_prometheus_text(zero.snapshot());
  for (const char* const line :
       {"# TYPE horovod_batches_total counter\n",
        "horovod_batches_total{rank=\"0\",kind=\"allreduce\"} 1\n",
        "horovod_packed_bytes_total{rank=\"0\",kind=\"allreduce\"} 48\n",
        "horovod_queue_seconds_total{rank=\"0\",kind=\"allreduce\"} 5e-06\n",
        "# TYPE horovod_batch_bytes histogram\n",
        "horovod_batch_bytes_bucket{rank=\"0\",le=\"64\"} 0\n",
        "horovod_batch_bytes_bucket{rank=\"0\",le=\"256\"} 1\n",
        "horovod_batch_bytes_bucket{rank=\"0\",le=\"+Inf\"} 1\n",
        "horovod_batch_bytes_sum{rank=\"0\"} 96\n", "horovod_batch_bytes_count{rank=\"0\"} 1\n",
        "horovod_rank_late_seconds_total{rank=\"1\"} 4e-06\n",
        "horovod_rank_last_total{rank=\"1\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_EQ(text.back(), '\n');
}

TEST(Stragglers, WhoWaitedLeastWasTheLast) {
  Stragglers stragglers(3);
  stragglers.add(0, 1, microseconds(100));
  stragglers.add(1, 1, microseconds(10));
  stragglers.add(2, 1, microseconds(60));
  stragglers.add(2, 2, microseconds(5));
  stragglers.add(0, 2, microseconds(25));
  stragglers.add(1, 2, microseconds(0));
  const auto totals = stragglers.totals();
  EXPECT_EQ(totals[0].total, microseconds(0));
  EXPECT_EQ(totals[1].total, microseconds(90 + 25));
  EXPECT_EQ(totals[1].longest, microseconds(90));
  EXPECT_EQ(totals[1].last, 2u);
  EXPECT_EQ(totals[2].total, microseconds(40 + 20));
  EXPECT_EQ(totals[2].last, 0u);
  EXPECT_EQ(totals[2].batches, 2u);
}

TEST(Stragglers, BatchesOfAFewRanksCountToo) {
  Stragglers stragglers(3);
  stragglers.add(0, 5, microseconds(7));
  EXPECT_EQ(stragglers.totals()[0].batches, 0u);  // nobody to compare with
  stragglers.add(2, 5, microseconds(9));
  for (int look = 0; look < 2; ++look) {
    EXPECT_EQ(stragglers.totals()[0].total, microseconds(2));
    EXPECT_EQ(stragglers.totals()[0].last, 1u);
    EXPECT_EQ(stragglers.totals()[1].batches, 0u);
  }
}

TEST(Stragglers, TheOldestIncompleteBatchMakesRoom) {
  Stragglers stragglers(3);
  const std::uint64_t many = 3 * Stragglers::kPending;
  for (std::uint64_t batch = 0; batch < many; ++batch) {
    stragglers.add(0, batch, microseconds(1));
    stragglers.add(1, batch, microseconds(0));
  }
  EXPECT_EQ(stragglers.totals()[1].last, many);
  EXPECT_EQ(stragglers.totals()[1].total, microseconds(many));
}

}  // namespace
}  // namespace hvd::engine
