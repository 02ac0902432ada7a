// Random schedules of worlds of 2 to 7 ranks in random trees, against the lock-step oracle: process
// sets, joins, groups, ranks that disagree, few slots, little credit, settings that change, stall
// traffic, leaving and dying.

#include <gtest/gtest.h>

#include "test/support/protocol_program_random.h"

namespace hvd {
namespace {

using test::LockStepCluster;
using test::pick;
using test::Program;
using test::repetitions;
using test::Submission;

// One walk: ranks and links have speeds of their own, so that some lag far behind.
class Walk {
 public:
  explicit Walk(std::uint32_t seed)
      : random_(seed),
        trees_(test::trees_of(test::random_parents(random_))),
        program_(test::random_program(static_cast<int>(trees_.size()), random_)),
        cluster_(trees_, test::random_settings(random_)) {
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
      if (random_() % 64 == 0 && !cluster_.dead(0)) {
        cluster_.rank(0).change_settings(test::random_settings(random_));
      }
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
  // Rank 0 goes on asking where ranks are as long as something waits, so a deadlock has no end.
  void finish() {
    for (int i = 0; i < 100 && go(1000); ++i) {
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

// Ten thousand schedules where the compiler optimises, else enough to keep them honest.
#ifdef NDEBUG
constexpr int kSchedules = 1000;
#else
constexpr int kSchedules = 40;
#endif

class RandomWalks : public testing::TestWithParam<int> {};

TEST_P(RandomWalks, EndAsTheOracleSays) {
  const int count = repetitions(kSchedules);
  for (int seed = GetParam() * count; seed < (GetParam() + 1) * count; ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(static_cast<std::uint32_t>(seed));
    ASSERT_NO_THROW(walk.finish());
    ASSERT_NO_THROW(check_outcomes(walk.program(), walk.cluster()));
    for (Rank r = 0; r < walk.cluster().size(); ++r) {
      ASSERT_FALSE(walk.cluster().rank(r).next_deadline()) << "rank " << r << " waits for nothing";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tenths, RandomWalks, testing::Range(0, 10));

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
      EXPECT_EQ(cluster.batches_run(r), cluster.batches_of(r));
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
