#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "test/horovod_cpp/distributed/worlds.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;

// Rank r makes `steps[r]` averages of its number plus one and then joins; gives what it saw.
struct Seen {
  std::vector<double> averages;
  int last = -1;
};
std::vector<Seen> run_uneven(const std::vector<int>& steps, JoinAverage average) {
  std::vector<Seen> seen(steps.size());
  run_sets(static_cast<int>(steps.size()), [&](const ProcessSet& all) {
    const auto rank = static_cast<std::size_t>(all.rank());
    for (int step = 0; step < steps[rank]; ++step) {
      const Tensor mine = Tensor::full({2}, all.rank() + 1);
      seen[rank].averages.push_back(
          allreduce(mine, {.name = "x", .process_set = all}).to_vector()[0]);
    }
    seen[rank].last = join({.average = average, .process_set = all});
  });
  return seen;
}

// What a rank with the most steps must see, by counting who still contributes.
std::vector<double> expected_averages(const std::vector<int>& steps, JoinAverage average) {
  std::vector<double> expected;
  for (int step = 0; step < *std::max_element(steps.begin(), steps.end()); ++step) {
    double sum = 0;
    int contributed = 0;
    for (std::size_t rank = 0; rank < steps.size(); ++rank) {
      if (steps[rank] <= step) continue;
      sum += static_cast<double>(rank) + 1;
      ++contributed;
    }
    const bool by_size = average == JoinAverage::kSize;
    expected.push_back(sum / (by_size ? static_cast<double>(steps.size()) : contributed));
  }
  return expected;
}

TEST(Join, AveragesOverTheRanksThatContributed) {
  // None, one and all but one joined early; also ranks that never submitted anything.
  for (const std::vector<int>& steps :
       std::vector<std::vector<int>>{{2, 2}, {3, 1}, {0, 2}, {4, 2, 4, 0}, {0, 0, 0, 5}, {1}}) {
    const auto seen = run_uneven(steps, JoinAverage::kContributed);
    const auto longest =
        static_cast<std::size_t>(std::max_element(steps.begin(), steps.end()) - steps.begin());
    const auto expected = expected_averages(steps, JoinAverage::kContributed);
    EXPECT_EQ(seen[longest].averages, expected);
    for (const Seen& rank : seen) EXPECT_EQ(rank.last, seen[0].last);
  }
}

TEST(Join, OrOverAllRanksLikeHorovod) {
  const std::vector<int> steps = {1, 4, 4, 2};
  const auto seen = run_uneven(steps, JoinAverage::kSize);
  EXPECT_EQ(seen[1].averages, expected_averages(steps, JoinAverage::kSize));
}

TEST(Join, ReturnsTheRankThatJoinedLast) {
  const auto seen = run_uneven({3, 1, 1}, JoinAverage::kContributed);
  for (const Seen& rank : seen) EXPECT_EQ(rank.last, 0);
}

TEST(Join, ContributesNothingToWhatTheOthersGather) {
  run_sets(3, [](const ProcessSet& all) {
    if (all.rank() != 1) {
      const Tensor rows = allgather(Tensor::full({2}, all.rank()), {.process_set = all});
      EXPECT_THAT(rows.to_vector(), ElementsAre(0, 0, 2, 2));
      const Tensor low =
          allreduce(Tensor::full({1}, 5), {.op = ReduceOp::kMin, .process_set = all});
      EXPECT_EQ(low.item(), 5);
      EXPECT_EQ(broadcast(Tensor::full({1}, all.rank()), 2, {.process_set = all}).item(), 2);
    }
    join({.process_set = all});
  });
}

TEST(Join, ABroadcastFromARankThatJoinedIsAnErrorForTheOthers) {
  run_sets(2, [](const ProcessSet& all) {
    if (all.rank() == 0) {
      EXPECT_THROW(broadcast(Tensor::ones({2}), 1, {.process_set = all}), MismatchError);
    }
    join({.process_set = all});
    EXPECT_EQ(allreduce(Tensor::ones({1}), {.op = ReduceOp::kSum, .process_set = all}).item(), 2);
  });
}

TEST(Join, WaitsAsAHandleAndAllowsNoSubmissionsMeanwhile) {
  run_sets(2, [](const ProcessSet& all) {
    if (all.rank() == 1) {
      const JoinHandle joined = join_async({.process_set = all});
      EXPECT_FALSE(joined.poll());
      EXPECT_THROW(allreduce(Tensor::ones({1}), {.process_set = all}), InvalidArgumentError);
      send(Tensor::ones({1}), 0, {.process_set = all});
      EXPECT_EQ(joined.synchronize(), 0);
    } else {
      recv(Tensor::ones({1}), 1, {.process_set = all});
      EXPECT_EQ(join({.process_set = all}), 0);
    }
  });
}

TEST(Join, OfASetLeavesTheOthersAlone) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const ProcessSet pair = world->add_process_set({0, 2});
    const ProcessSet all = world->global_process_set();
    if (world->topology().rank == 2) {
      EXPECT_EQ(allreduce(Tensor::ones({1}), {.process_set = pair}).item(), 1);
    }
    if (pair.included()) {
      EXPECT_GE(join({.process_set = pair}), 0);
    }
    EXPECT_EQ(allreduce(Tensor::ones({1}), {.op = ReduceOp::kSum, .process_set = all}).item(), 3);
  });
}

}  // namespace
}  // namespace hvd
