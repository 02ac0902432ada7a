#include "horovod_cpp/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/status.h"

namespace hvd {
namespace data {
namespace {

using Indices = std::vector<std::int64_t>;
using ::testing::HasSubstr;

Indices sorted(Indices indices) {
  std::ranges::sort(indices);
  return indices;
}

// All ranks' shares, interleaved back into the order they were taken from.
Indices interleaved(std::int64_t size, int replicas, bool shuffle, std::int64_t epoch,
                    bool drop_last) {
  std::vector<Indices> shares;
  for (int rank = 0; rank < replicas; ++rank) {
    DistributedSampler sampler(size, replicas, rank, shuffle, 7, drop_last);
    sampler.set_epoch(epoch);
    shares.push_back(sampler.indices());
    EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(shares.back().size()));
  }
  Indices order;
  for (std::size_t i = 0; i < shares.front().size(); ++i) {
    for (const Indices& share : shares) order.push_back(share.at(i));
  }
  return order;
}

TEST(SequentialSampler, GivesTheIndicesInOrderEveryPass) {
  SequentialSampler sampler(4);
  EXPECT_EQ(sampler.indices(), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(sampler.indices(), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(sampler.size(), 4);
}

TEST(RandomPermutation, HoldsEveryIndexOnce) {
  for (const std::int64_t size : {0, 1, 2, 3, 100, 1797}) {
    EXPECT_EQ(sorted(random_permutation(size, 3, 5)), SequentialSampler(size).indices());
  }
}

TEST(RandomPermutation, DependsOnSeedAndEpochAlone) {
  EXPECT_EQ(random_permutation(50, 1, 2), random_permutation(50, 1, 2));
  std::set<Indices> different;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
      different.insert(random_permutation(50, seed, epoch));
    }
  }
  EXPECT_EQ(different.size(), 64u);
}

TEST(RandomPermutation, VisitsAllOrdersEquallyOften) {
  std::map<Indices, int> counts;
  for (std::int64_t epoch = 0; epoch < 6000; ++epoch) ++counts[random_permutation(3, 0, epoch)];
  ASSERT_EQ(counts.size(), 6u);
  // 1000 expected each, standard deviation 29.
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(RandomSampler, GivesAnotherOrderEveryPass) {
  RandomSampler sampler(100, 4);
  const Indices first = sampler.indices();
  const Indices second = sampler.indices();
  EXPECT_NE(first, second);
  EXPECT_EQ(sorted(first), sorted(second));
}

TEST(RandomSampler, FindsItsOrderAgainAfterSetEpoch) {
  RandomSampler sampler(100, 4);
  const Indices first = sampler.indices();
  const Indices second = sampler.indices();
  RandomSampler resumed(100, 4);
  resumed.set_epoch(1);
  EXPECT_EQ(resumed.indices(), second);
  resumed.set_epoch(0);
  EXPECT_EQ(resumed.indices(), first);
}

TEST(DistributedSampler, GivesStridedSharesPaddedFromTheBeginning) {
  EXPECT_EQ(DistributedSampler(10, 4, 0, false).indices(), (Indices{0, 4, 8}));
  EXPECT_EQ(DistributedSampler(10, 4, 1, false).indices(), (Indices{1, 5, 9}));
  EXPECT_EQ(DistributedSampler(10, 4, 2, false).indices(), (Indices{2, 6, 0}));
  EXPECT_EQ(DistributedSampler(10, 4, 3, false).indices(), (Indices{3, 7, 1}));
}

TEST(DistributedSampler, CutsTheTailWithDropLast) {
  EXPECT_EQ(interleaved(10, 4, false, 0, true), (Indices{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(interleaved(8, 4, false, 0, true), (Indices{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(interleaved(3, 4, false, 0, true), Indices{});
}

TEST(DistributedSampler, PadsADatasetSmallerThanTheWorldByRepeatingIt) {
  EXPECT_EQ(interleaved(3, 8, false, 0, false), (Indices{0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(DistributedSampler, GivesNothingOfAnEmptyDataset) {
  EXPECT_EQ(interleaved(0, 2, true, 0, false), Indices{});
}

TEST(DistributedSampler, SplitsOneAndTheSamePermutation) {
  for (const int replicas : {1, 2, 3, 5, 8}) {
    for (const std::int64_t size : {1, 7, 64, 101}) {
      Indices order = random_permutation(size, 7, 3);
      const Indices whole = order;
      while (order.size() % static_cast<std::size_t>(replicas) != 0) {
        order.push_back(whole[(order.size() - whole.size()) % whole.size()]);
      }
      EXPECT_EQ(interleaved(size, replicas, true, 3, false), order);
    }
  }
}

TEST(DistributedSampler, ChangesItsOrderWithTheEpochAndOnlyThen) {
  DistributedSampler sampler(100, 2, 1);
  const Indices first = sampler.indices();
  EXPECT_EQ(sampler.indices(), first);
  sampler.set_epoch(1);
  EXPECT_NE(sampler.indices(), first);
  sampler.set_epoch(0);
  EXPECT_EQ(sampler.indices(), first);
}

TEST(DistributedSampler, KeepsEveryExampleOnceWhenSharesMayDiffer) {
  std::vector<Indices> shares;
  for (int rank = 0; rank < 4; ++rank) {
    DistributedSampler sampler(10, 4, rank, false, 0, Uneven::kKeep);
    shares.push_back(sampler.indices());
    EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(shares.back().size()));
  }
  EXPECT_EQ(shares, (std::vector<Indices>{{0, 4, 8}, {1, 5, 9}, {2, 6}, {3, 7}}));
  EXPECT_EQ(DistributedSampler(10, 4, 3, false, 0, Uneven::kPad).indices(), (Indices{3, 7, 1}));
  EXPECT_EQ(DistributedSampler(10, 4, 0, false, 0, Uneven::kDrop).indices(), (Indices{0, 4}));
}

TEST(DistributedSampler, RefusesARankOutsideTheWorld) {
  for (const auto& [replicas, rank] : {std::pair(2, 2), {2, -1}, {0, 0}, {-1, 0}}) {
    try {
      DistributedSampler(10, replicas, rank);
      ADD_FAILURE() << rank << " of " << replicas << " was accepted";
    } catch (const InvalidArgumentError& error) {
      const std::string wrong = replicas < 1 ? "num_replicas is " + std::to_string(replicas)
                                             : "rank is " + std::to_string(rank);
      EXPECT_THAT(error.what(), HasSubstr(wrong + ";"));
    }
  }
}

TEST(Samplers, GoOnWithTheRestOfThePassOfALoadedState) {
  RandomSampler sampler(10, 4);
  sampler.indices();
  const Indices second = sampler.indices();
  sampler.advance(4);
  const SamplerState state = sampler.state();
  EXPECT_EQ(state, (SamplerState{4, 1, 4}));
  const Indices third = sampler.indices();

  RandomSampler resumed(10, /*another seed*/ 99);
  resumed.load_state(state);
  EXPECT_EQ(resumed.state(), state);
  EXPECT_EQ(resumed.indices(), Indices(second.begin() + 4, second.end()));
  EXPECT_EQ(resumed.indices(), third);
  EXPECT_EQ(resumed.state(), (SamplerState{4, 2, 0}));
}

TEST(Samplers, KeepALoadedPositionOnlyForItsOwnEpoch) {
  DistributedSampler sampler(12, 2, 1, true, 3);
  sampler.set_epoch(5);
  const Indices whole = sampler.indices();
  sampler.advance(2);
  const SamplerState state = sampler.state();
  sampler.set_epoch(5);
  EXPECT_EQ(sampler.indices(), whole) << "a pass that is begun anew is whole";
  sampler.load_state(state);
  sampler.set_epoch(5);
  EXPECT_EQ(sampler.indices(), Indices(whole.begin() + 2, whole.end()));
  sampler.load_state(state);
  sampler.set_epoch(6);
  EXPECT_EQ(sampler.indices().size(), whole.size());
}

TEST(Samplers, HaveNothingLeftOfAPassThatEnded) {
  SequentialSampler sampler(3);
  sampler.load_state({0, 2, 3});
  EXPECT_EQ(sampler.indices(), Indices{});
  EXPECT_EQ(sampler.indices(), (Indices{0, 1, 2}));
  EXPECT_EQ(sampler.state().epoch, 3);
}

TEST(Samplers, RefuseAStateTheyCannotBeIn) {
  SequentialSampler sampler(3);
  EXPECT_THROW(sampler.load_state({0, 0, 4}), InvalidArgumentError);
  EXPECT_THROW(sampler.load_state({0, 0, -1}), InvalidArgumentError);
  EXPECT_THROW(sampler.load_state({0, -1, 0}), InvalidArgumentError);
  EXPECT_EQ(sampler.state(), SamplerState{});
}

TEST(Samplers, RefuseANegativeSize) {
  EXPECT_THROW(SequentialSampler(-1), InvalidArgumentError);
  EXPECT_THROW(RandomSampler(-1), InvalidArgumentError);
  EXPECT_THROW(DistributedSampler(-1, 1, 0), InvalidArgumentError);
}

}  // namespace
}  // namespace data
}  // namespace hvd
