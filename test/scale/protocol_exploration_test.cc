// Every schedule of tiny jobs of three ranks, against the lock-step oracle: submissions, messages,
// credit, leaving and passing time in every order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/schedule_explorer.h"

namespace hvd::engine {
namespace {

using std::chrono::seconds;
using test::Exploration;
using test::LockStepCluster;
using test::program_of;
using test::SmallJob;
using testing::AllOf;
using testing::ContainsRegex;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::size_t kMaxStates = 200'000;  // far more than any job here has
const std::vector<Rank> kStar = {0, 0, 0};
const std::vector<Rank> kChain = {0, 0, 1};

using Rows = std::vector<std::map<std::string, std::string>>;  // by rank: name -> shape by round

Rows everywhere(const std::map<std::string, std::string>& row) {
  return {row, row, row};
}

NegotiationSettings settings_of(std::size_t capacity, int in_flight, int warning = 60,
                                int limit = 0) {
  NegotiationSettings settings;
  settings.cache_capacity = capacity;
  settings.batches_in_flight = in_flight;
  settings.stall_warning = seconds(warning);
  settings.stall_limit = seconds(limit);
  settings.eager_bytes = 64;
  return settings;
}

void explore_all(const SmallJob& job,
                 const std::function<void(const LockStepCluster&)>& check_end) {
  Exploration found;
  ASSERT_NO_THROW(found = explore(job, kMaxStates, check_end));
  testing::Test::RecordProperty("states", static_cast<int>(found.states));
  testing::Test::RecordProperty("ends", static_cast<int>(found.ends));
  EXPECT_TRUE(found.complete) << found.states << " states are a sample";
  EXPECT_GT(found.states, 100u);
  EXPECT_GT(found.ends, 0u);
}

struct World {
  const char* name;
  Rows rows;
  NegotiationSettings settings;
  std::vector<std::string> known = {};
  int seconds = 0;
};

// GoogleTest prints parameters.
void PrintTo(const World& world, std::ostream* out) {
  *out << world.name;
}

class EverySchedule : public testing::TestWithParam<World> {
 protected:
  void explore_world(const std::vector<Rank>& parents) {
    const World& world = GetParam();
    const SmallJob job{.parents = parents,
                       .program = program_of(world.rows),
                       .settings = world.settings,
                       .known = world.known,
                       .seconds = world.seconds};
    explore_all(job, [&](const LockStepCluster& cluster) {
      check_outcomes(job.program, cluster);
      for (Rank r = 0; r < cluster.size(); ++r) {
        ASSERT_FALSE(cluster.rank(r).next_deadline()) << "something still waits on rank " << r;
      }
    });
  }
};

TEST_P(EverySchedule, OfAStarEndsAsTheOracleSays) {
  explore_world(kStar);
}
TEST_P(EverySchedule, OfAChainEndsAsTheOracleSays) {
  explore_world(kChain);
}

INSTANTIATE_TEST_SUITE_P(
    TinyWorlds, EverySchedule,
    testing::Values(
        World{"SteadyState", everywhere({{"n", "XXX"}}), settings_of(4, 4)},
        World{"AllChangeTheShape", everywhere({{"n", "XYX"}}), settings_of(4, 4)},
        World{"OneChangesTheShape",
              {{{"n", "XYX"}}, {{"n", "XXX"}}, {{"n", "XXX"}}},
              settings_of(4, 4)},
        World{"ThreeShapes", {{{"n", "XX"}}, {{"n", "XY"}}, {{"n", "XZ"}}}, settings_of(4, 1)},
        World{
            "NoSlotOutlivesARun", {{{"n", "XX"}}, {{"n", "XX"}}, {{"n", "XY"}}}, settings_of(0, 1)},
        // The slot of "n" goes to "m" while ranks announce "n" by its number.
        World{"Eviction", everywhere({{"n", "XX"}, {"m", "X"}}), settings_of(1, 1), {"n"}},
        World{"EvictionWithMoreCredit",
              everywhere({{"n", "XX"}, {"m", "X"}}),
              settings_of(1, 2),
              {"n"}},
        World{"EvictionAndDisagreement",
              {{{"n", "XY"}, {"m", "X"}}, {{"n", "XX"}, {"m", "X"}}, {{"n", "XX"}, {"m", "X"}}},
              settings_of(1, 2),
              {"n"}},
        World{"WarningsOfAStall", everywhere({{"n", "XX"}}), settings_of(4, 1, 2), {"n"}, 3},
        World{"WarningsAndDisagreement",
              {{{"n", "XX"}}, {{"n", "XX"}}, {{"n", "XY"}}},
              settings_of(4, 1, 2),
              {"n"},
              3}),
    [](const auto& tested) { return tested.param.name; });

class EveryScheduleWithLeaving : public testing::TestWithParam<std::vector<Rank>> {
 protected:
  void explore_job(const std::vector<Rank>& parents) {
    const Rows rows = everywhere({{"n", "XX"}});
    const SmallJob job{.parents = parents,
                       .program = program_of(rows),
                       .settings = settings_of(4, 1),
                       .known = {"n"},
                       .leavers = GetParam()};
    explore_all(job, [&](const LockStepCluster& cluster) {
      check_stopped(job.program, cluster);
      EXPECT_TRUE(cluster.stopped(0)->orderly);
      EXPECT_THAT(cluster.stopped(0)->why.message(), testing::AnyOfArray(reasons()));
    });
  }
  static std::vector<testing::Matcher<std::string>> reasons() {
    std::vector<testing::Matcher<std::string>> all;
    for (const Rank r : GetParam()) {
      all.push_back(testing::StartsWith("rank " + std::to_string(r) + " left the job after "));
    }
    return all;
  }
};

TEST_P(EveryScheduleWithLeaving, StopsAStarInOneState) {
  explore_job(kStar);
}
TEST_P(EveryScheduleWithLeaving, StopsAChainInOneState) {
  explore_job(kChain);
}

INSTANTIATE_TEST_SUITE_P(Leavers, EveryScheduleWithLeaving,
                         testing::Values(std::vector<Rank>{0}, std::vector<Rank>{1},
                                         std::vector<Rank>{2}, std::vector<Rank>{0, 2},
                                         std::vector<Rank>{1, 2}),
                         [](const auto& tested) {
                           std::string name = "Rank";
                           for (const Rank r : tested.param) name += std::to_string(r);
                           return name;
                         });

class EveryScheduleOfAStall : public testing::TestWithParam<std::vector<Rank>> {};

TEST_P(EveryScheduleOfAStall, ReportsAndGivesUpOnTheRankThatIsMissing) {
  const SmallJob job{.parents = GetParam(),
                     .program = program_of({{{"n", "X"}}, {{"n", "X"}}, {{"n", ""}}}),
                     .settings = settings_of(4, 1, 1, 2),
                     .seconds = 4};
  explore_all(job, [&](const LockStepCluster& cluster) {
    check_stopped(job.program, cluster);
    EXPECT_EQ(cluster.stopped(0)->why.code(), StatusCode::kStalled);
    EXPECT_THAT(cluster.stopped(0)->why.message(), ContainsRegex("waiting in 'n' for ranks? .*2"));
    EXPECT_THAT(cluster.reports(0),
                AllOf(Not(IsEmpty()), Each(ContainsRegex("ranks? .*2 (is|are) late"))));
  });
}

TEST_P(EveryScheduleOfAStall, OutlivesTheEvictionOfTheNameThatWaits) {
  const Rows rows = {{{"n", "X"}, {"m", "X"}}, {{"n", "X"}, {"m", "X"}}, {{"n", "XX"}, {"m", "X"}}};
  const SmallJob job{.parents = GetParam(),
                     .program = program_of(rows),
                     .settings = settings_of(1, 2, 4, 6),
                     .known = {"n"},
                     .seconds = 2};
  explore_all(job, [&](const LockStepCluster& cluster) {
    check_stopped(job.program, cluster);
    EXPECT_EQ(cluster.stopped(0)->why.code(), StatusCode::kStalled);
    EXPECT_THAT(cluster.stopped(0)->why.message(), HasSubstr("waiting in 'n' for ranks 0 and 1"));
    EXPECT_EQ(cluster.batches().size(), 2u) << "and \"m\" runs";
  });
}

// Where submissions take longer than the limit, the job stops.
TEST_P(EveryScheduleOfAStall, RunsEverythingOrStopsEverywhere) {
  const SmallJob job{.parents = GetParam(),
                     .program = program_of(everywhere({{"n", "XX"}})),
                     .settings = settings_of(4, 1, 1, 2),
                     .known = {"n"},
                     .seconds = 3};
  int ran = 0;
  int stopped = 0;
  explore_all(job, [&](const LockStepCluster& cluster) {
    if (!cluster.stopped(0)) {
      ++ran;
      check_outcomes(job.program, cluster);
      return;
    }
    ++stopped;
    check_stopped(job.program, cluster);
    EXPECT_EQ(cluster.stopped(0)->why.code(), StatusCode::kStalled);
  });
  EXPECT_GT(ran, 0);
  EXPECT_GT(stopped, 0);
}

INSTANTIATE_TEST_SUITE_P(Trees, EveryScheduleOfAStall, testing::Values(kStar, kChain),
                         [](const auto& tested) {
                           return tested.param == kStar ? "Star" : "Chain";
                         });

}  // namespace
}  // namespace hvd::engine
