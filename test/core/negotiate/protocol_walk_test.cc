// Random schedules of worlds of 2 to 7 ranks in random trees, against the lock-step oracle: process
// sets, joins, groups, ranks that disagree, few slots, little credit, settings that change, stall
// traffic, leaving and dying.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "test/support/protocol_program_random.h"

namespace hvd::engine {
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
  Rank any_rank() { return static_cast<Rank>(random_() % static_cast<unsigned>(cluster_.size())); }
  int some_steps() { return static_cast<int>(random_() % 200); }
  bool heads() { return random_() % 2 == 0; }

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
        cluster_.send_values(submissions[choice].rank, random_() % 8 != 0);
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

// -- How a walk ends: with its program, by shutdown() on a rank, by one death, by two.

void end_as_the_oracle_says(Walk& walk) {
  ASSERT_NO_THROW(walk.finish());
  ASSERT_NO_THROW(check_outcomes(walk.program(), walk.cluster()));
  for (Rank r = 0; r < walk.cluster().size(); ++r) {
    ASSERT_FALSE(walk.cluster().rank(r).next_deadline()) << "rank " << r << " waits for nothing";
  }
}

void leave_in_one_state(Walk& walk) {
  LockStepCluster& cluster = walk.cluster();
  const Rank leaver = walk.any_rank();
  ASSERT_NO_THROW(walk.go(walk.some_steps()));
  cluster.leave(leaver);
  ASSERT_NO_THROW(walk.finish());
  for (Rank r = 0; r < cluster.size(); ++r) {
    ASSERT_TRUE(cluster.stopped(r)) << "rank " << r;
    EXPECT_THAT(cluster.stopped(r)->why.message(),
                testing::StartsWith("rank " + std::to_string(leaver) + " left the job after "));
    EXPECT_EQ(cluster.batches_run(r), cluster.batches_of(r));
    EXPECT_TRUE(cluster.rank(r).finished_leaving());
  }
}

void die_and_be_named(Walk& walk) {
  LockStepCluster& cluster = walk.cluster();
  const Rank victim = walk.any_rank();
  ASSERT_NO_THROW(walk.go(walk.some_steps()));
  cluster.kill(victim, walk.heads());
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

void die_in_pairs(Walk& walk) {
  LockStepCluster& cluster = walk.cluster();
  const Rank first = walk.any_rank();
  const Rank second = (first + 1 + walk.any_rank() % (cluster.size() - 1)) % cluster.size();
  ASSERT_NO_THROW(walk.go(walk.some_steps()));
  cluster.kill(first, walk.heads());
  cluster.kill(second, walk.heads());
  ASSERT_NO_THROW(walk.finish());
  for (Rank r = 0; r < cluster.size(); ++r) {
    if (r == first || r == second) continue;
    ASSERT_TRUE(cluster.stopped(r)) << "rank " << r << ", dead " << first << ", " << second;
    EXPECT_EQ(cluster.stopped(r)->why.code(), StatusCode::kTransport);
    EXPECT_TRUE(cluster.rank(r).finished_leaving());
  }
}

// Ten thousand schedules where the compiler optimises, else enough to keep them honest.
#ifdef NDEBUG
constexpr int kSchedules = 1000;
#else
constexpr int kSchedules = 40;
#endif

class RandomWalks : public testing::TestWithParam<int> {};

TEST_P(RandomWalks, EndInOneStateEverywhere) {
  constexpr std::array kEndings = {end_as_the_oracle_says, leave_in_one_state,
                                   end_as_the_oracle_says, die_and_be_named,
                                   end_as_the_oracle_says, die_in_pairs};
  const int count = repetitions(kSchedules);
  std::size_t reduced_by_root = 0;
  for (int seed = GetParam() * count; seed < (GetParam() + 1) * count; ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(static_cast<std::uint32_t>(seed));
    kEndings[static_cast<std::size_t>(seed) % kEndings.size()](walk);
    if (testing::Test::HasFailure()) return;
    reduced_by_root += walk.cluster().reduced_by_root();
  }
  EXPECT_TRUE(count < 1000 || reduced_by_root > 0);
}

INSTANTIATE_TEST_SUITE_P(Tenths, RandomWalks, testing::Range(0, 10));

}  // namespace
}  // namespace hvd::engine
