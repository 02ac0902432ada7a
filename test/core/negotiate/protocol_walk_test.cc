// Random schedules of larger worlds, against the lock-step oracle: shapes that change, ranks that
// disagree, few slots, little credit, stall traffic, leaving and dying.

#include <gtest/gtest.h>

#include "test/support/protocol_program.h"

namespace hvd {
namespace {

using test::LockStepCluster;
using test::Program;
using test::repetitions;
using test::Submission;
using test::Submitted;
using test::trees_of;

const std::vector<std::vector<Rank>> kTrees = {
    {0, 0, 1, 1}, {0, 0, 0, 1}, {0, 0, 1, 2}, {0, 0, 0, 1, 1, 2, 2}, {0, 0, 1, 2, 3}};

template <typename T>
const T& pick(const std::vector<T>& from, std::mt19937& random) {
  return from[random() % from.size()];
}

Program random_program(int size, std::mt19937& random) {
  constexpr int kRounds = 4;
  Program program;
  program.ranks.resize(static_cast<std::size_t>(size));
  for (const std::string name : {"a", "b", "c", "d"}) {
    for (int round = 0; round < kRounds; ++round) {
      const char common = "XXXY"[random() % 4];
      for (auto& rank : program.ranks) {
        const char shape = random() % 25 == 0 ? "YZ"[random() % 2] : common;
        rank[name].push_back(test::small_request(name, shape));
        rank[name].back().automatic_name = name == "d";
      }
    }
  }
  return program;
}

NegotiationSettings random_settings(std::mt19937& random) {
  NegotiationSettings settings;
  settings.cache_capacity = pick<std::size_t>({0, 1, 2, 3, 8}, random);
  settings.fusion_threshold = pick<std::size_t>({0, 512, 1 << 20}, random);
  settings.batches_in_flight = pick<int>({1, 2, 4}, random);
  settings.batching_gap = std::chrono::milliseconds(random() % 3);
  settings.stall_warning = std::chrono::milliseconds(8);
  settings.stall_limit = Duration::zero();
  return settings;
}

// One walk: ranks and links have speeds of their own, so that some lag far behind.
class Walk {
 public:
  explicit Walk(std::uint32_t seed)
      : random_(seed),
        trees_(trees_of(pick(kTrees, random_))),
        program_(random_program(static_cast<int>(trees_.size()), random_)),
        cluster_(trees_, random_settings(random_)) {
    for (int i = 0; i < 2 * cluster_.size(); ++i) {
      speeds_.push_back(pick<double>({0.05, 0.3, 1, 3}, random_));
    }
  }

  LockStepCluster& cluster() { return cluster_; }
  const Program& program() const { return program_; }
  std::mt19937& random() { return random_; }

  // Goes on for at most `steps` moves; false when nothing can move any more.
  bool go(int steps) {
    while (steps-- > 0) {
      const auto submissions = possible_submissions(program_, cluster_);
      const auto events = cluster_.events();
      std::vector<double> weights;
      for (const Submission& s : submissions) weights.push_back(speed(s.rank));
      for (const auto& e : events) weights.push_back(speed(cluster_.size() + e.from));
      if (weights.empty()) return wake();
      idle_ = 0;
      weights.push_back(0.05);  // time passes
      std::discrete_distribution<std::size_t> choose(weights.begin(), weights.end());
      const std::size_t choice = choose(random_);
      if (choice < submissions.size()) {
        submit(program_, submissions[choice], cluster_, random_() % 2 == 0);
      } else if (choice < submissions.size() + events.size()) {
        cluster_.perform(events[choice - submissions.size()]);
      } else {
        cluster_.advance(std::chrono::milliseconds(1));
      }
    }
    return true;
  }
  void finish() {
    while (go(1000)) {
    }
  }

 private:
  double speed(int i) const { return speeds_[static_cast<std::size_t>(i)]; }
  // Coordinators look, and the batching gap ends; only if that moves nothing is the walk over.
  bool wake() {
    cluster_.advance(std::chrono::milliseconds(3));
    return ++idle_ < 3;
  }

  std::mt19937 random_;
  std::vector<Tree> trees_;
  Program program_;
  LockStepCluster cluster_;
  std::vector<double> speeds_;
  int idle_ = 0;
};

TEST(RandomWalk, EndsAsTheOracleSays) {
  for (int seed = 0; seed < repetitions(150); ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(static_cast<std::uint32_t>(seed));
    ASSERT_NO_THROW(walk.finish());
    ASSERT_NO_THROW(check_outcomes(walk.program(), walk.cluster()));
  }
}

TEST(RandomWalk, WithALeavingRankStopsEverywhereInOneState) {
  for (int seed = 0; seed < repetitions(100); ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(static_cast<std::uint32_t>(seed));
    LockStepCluster& cluster = walk.cluster();
    const auto leaver = static_cast<Rank>(walk.random()() % static_cast<unsigned>(cluster.size()));
    ASSERT_NO_THROW(walk.go(static_cast<int>(walk.random()() % 200)));
    cluster.leave(leaver);
    ASSERT_NO_THROW(walk.finish());
    for (Rank r = 0; r < cluster.size(); ++r) {
      ASSERT_TRUE(cluster.stopped(r)) << "rank " << r;
      EXPECT_EQ(cluster.stopped(r)->why.message(),
                "rank " + std::to_string(leaver) + " left the job");
      EXPECT_EQ(cluster.batches_run(r), cluster.batches().size());
      EXPECT_TRUE(cluster.rank(r).finished_leaving());
    }
  }
}

TEST(RandomWalk, WithADyingRankStopsEverySurvivorWithItsName) {
  for (int seed = 0; seed < repetitions(100); ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(static_cast<std::uint32_t>(seed));
    LockStepCluster& cluster = walk.cluster();
    const auto victim = static_cast<Rank>(walk.random()() % static_cast<unsigned>(cluster.size()));
    ASSERT_NO_THROW(walk.go(static_cast<int>(walk.random()() % 200)));
    cluster.kill(victim, walk.random()() % 2 == 0);
    ASSERT_NO_THROW(walk.finish());
    for (Rank r = 0; r < cluster.size(); ++r) {
      if (r == victim) continue;
      ASSERT_TRUE(cluster.stopped(r)) << "rank " << r << ", victim " << victim;
      EXPECT_EQ(cluster.stopped(r)->why,
                Status(StatusCode::kTransport,
                       "rank " + std::to_string(victim) + " is gone: its process ended"));
      EXPECT_TRUE(cluster.rank(r).finished_leaving()) << "rank " << r << ", victim " << victim;
    }
  }
}

TEST(RandomWalk, WithTwoDyingRanksStopsEverySurvivor) {
  for (int seed = 0; seed < repetitions(100); ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(static_cast<std::uint32_t>(seed));
    LockStepCluster& cluster = walk.cluster();
    const auto size = static_cast<unsigned>(cluster.size());
    const auto first = static_cast<Rank>(walk.random()() % size);
    const auto second =
        static_cast<Rank>((static_cast<unsigned>(first) + 1 + walk.random()() % (size - 1)) % size);
    ASSERT_NO_THROW(walk.go(static_cast<int>(walk.random()() % 200)));
    cluster.kill(first, walk.random()() % 2 == 0);
    cluster.kill(second, walk.random()() % 2 == 0);
    ASSERT_NO_THROW(walk.finish());
    for (Rank r = 0; r < cluster.size(); ++r) {
      if (r == first || r == second) continue;
      ASSERT_TRUE(cluster.stopped(r)) << "rank " << r << ", dead " << first << ", " << second;
      EXPECT_EQ(cluster.stopped(r)->why.code(), StatusCode::kTransport);
      EXPECT_TRUE(cluster.rank(r).finished_leaving());
    }
  }
}

}  // namespace
}  // namespace hvd
