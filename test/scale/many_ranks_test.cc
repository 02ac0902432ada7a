// Thousands of virtual ranks: plans are equal everywhere, and what rank 0 says and hears depends on
// the fan-out of the tree, not on the number of ranks.

#include <gtest/gtest.h>

#include <algorithm>

#include "test/support/lock_step_cluster.h"

namespace hvd::engine {
namespace {

using test::hosts_of;
using test::LockStepCluster;

constexpr int kTensors = 8;
constexpr int kRounds = 3;

Request gradient(int i) {
  Request request;
  request.name = "layer" + std::to_string(i) + ".weight";
  request.shapes = {{i + 1, 3}};
  return request;
}

class ManyRanks : public testing::TestWithParam<int> {
 protected:
  // Every rank submits all tensors, each in an order of its own, and the ranks one after the other
  // in a random order; messages are delivered now and then in between.
  void submit_shuffled(LockStepCluster& cluster) {
    std::vector<Rank> ranks(static_cast<std::size_t>(cluster.size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<Rank>(i);
    std::shuffle(ranks.begin(), ranks.end(), random_);
    std::vector<int> tensors(kTensors);
    for (int i = 0; i < kTensors; ++i) tensors[static_cast<std::size_t>(i)] = i;
    const std::size_t pause = ranks.size() / 4 + 1;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      std::shuffle(tensors.begin(), tensors.end(), random_);
      for (const int tensor : tensors) cluster.submit(ranks[i], gradient(tensor), false);
      cluster.flush(ranks[i]);
      if (i % pause == 0) deliver(cluster);
    }
    deliver(cluster);
  }

  // In sweeps: looking for one event at a time would cost a walk over all links each.
  void deliver(LockStepCluster& cluster) {
    for (auto all = cluster.events(); !all.empty(); all = cluster.events()) {
      std::shuffle(all.begin(), all.end(), random_);
      for (const auto& event : all) cluster.perform(event);
    }
  }

  std::mt19937 random_{11};
};

TEST_P(ManyRanks, RunTheSamePlansWhateverTheOrderOfArrival) {
  LockStepCluster cluster(hosts_of(GetParam(), 8), {});
  for (int round = 0; round < kRounds; ++round) submit_shuffled(cluster);  // checks as it goes
  std::size_t members = 0;
  for (const auto& [number, batch] : cluster.batches()) members += batch.rounds.size();
  EXPECT_EQ(members, static_cast<std::size_t>(kTensors * kRounds));
  for (Rank r = 0; r < cluster.size(); ++r) {
    ASSERT_EQ(cluster.batches_run(r), cluster.batches().size());
  }
}

TEST_P(ManyRanks, LoadRankZeroByTheFanOutAlone) {
  const std::vector<Tree> trees = hosts_of(GetParam(), 8);
  const std::size_t children = trees[0].children.size();
  EXPECT_LE(children, static_cast<std::size_t>(kTreeFanOut + 7));
  LockStepCluster cluster(trees, {});
  submit_shuffled(cluster);
  const std::size_t sent = cluster.messages_sent(0);
  submit_shuffled(cluster);
  // Steady state, and at most one decision a tensor (fewer: they share batches).
  EXPECT_LE(cluster.messages_sent(0) - sent, children * kTensors);
}

INSTANTIATE_TEST_SUITE_P(Worlds, ManyRanks, testing::Values(2, 3, 8, 9, 64, 300, 1024, 4096));

}  // namespace
}  // namespace hvd::engine
