// Every schedule of tiny jobs of three ranks with process sets and joins, against the lock-step
// oracle.

#include <gtest/gtest.h>

#include "test/support/schedule_explorer.h"

namespace hvd::engine {
namespace {

using test::Epoch;
using test::Epochs;
using test::Exploration;
using test::LockStepCluster;
using test::Program;
using test::SmallJob;

constexpr std::size_t kMaxStates = 100'000;  // far more than any job here has

// "XYX" = three rounds of a name.
Epoch epoch(const std::map<std::string, std::string>& names, bool joins = false,
            bool joins_average = false) {
  Epoch made{{}, joins, joins_average};
  for (const auto& [name, shapes] : names) {
    for (const char shape : shapes) made.names[name].push_back(test::small_request(name, shape));
  }
  return made;
}

Epoch joining(const std::map<std::string, std::string>& names, bool joins_average = false) {
  return epoch(names, true, joins_average);
}

using Row = std::map<std::string, Epochs>;  // by label

// The world's first epoch of every rank begins with these.
Program with_sets(const std::map<std::string, std::vector<Rank>>& sets, std::vector<Row> rows,
                  const std::vector<std::string>& removed = {}) {
  for (Row& row : rows) {
    if (row[""].empty()) row[""].emplace_back();
    for (const auto& [label, ranks] : sets) {
      row[""].front().names["add " + label] = {test::add_set(label, ranks)};
    }
    for (const std::string& label : removed) {
      row[""].back().names["remove " + label] = {test::remove_set(label)};
    }
  }
  return {std::move(rows)};
}

Program broadcasts(Program program, const std::string& name, Rank root) {
  for (auto& row : program.ranks) {
    for (auto& [label, epochs] : row) {
      for (Epoch& one : epochs) {
        for (Request& request : one.names[name]) {
          request.kind = CollectiveKind::kBroadcast;
          request.root = root;
        }
        if (one.names[name].empty()) one.names.erase(name);
      }
    }
  }
  return program;
}

// Ranks 1 and 2 ask for the set of ranks 0 and 1, rank 0 joins instead.
Program adding_ranks(Program program) {
  for (const std::size_t r : {1u, 2u}) {
    program.ranks[r][""].front().names["add A"] = {test::add_set("A", {0, 1})};
  }
  return program;
}

struct World {
  const char* name;
  Program program;
  std::size_t capacity = 4;
  int in_flight = 4;
  std::vector<std::string> known = {};
  std::vector<Rank> leavers = {};
};

// GoogleTest prints parameters.
void PrintTo(const World& world, std::ostream* out) {
  *out << world.name;
}

class EveryScheduleOfSets : public testing::TestWithParam<World> {
 protected:
  void explore_world(const std::vector<Rank>& parents) {
    const World& world = GetParam();
    SmallJob job{.parents = parents,
                 .program = world.program,
                 .known = world.known,
                 .leavers = world.leavers};
    job.settings.cache_capacity = world.capacity;
    job.settings.batches_in_flight = world.in_flight;
    job.settings.stall_warning = std::chrono::seconds(60);
    job.settings.stall_limit = Duration::zero();
    Exploration found;
    ASSERT_NO_THROW(found = explore(job, kMaxStates, [&](const LockStepCluster& cluster) {
                      if (job.leavers.empty()) return check_outcomes(job.program, cluster);
                      check_stopped(job.program, cluster);
                    }));
    RecordProperty("states", static_cast<int>(found.states));
    RecordProperty("ends", static_cast<int>(found.ends));
    EXPECT_TRUE(found.complete) << found.states << " states are a sample";
    EXPECT_GT(found.states, 30u);
    EXPECT_GT(found.ends, 0u);
  }
};

TEST_P(EveryScheduleOfSets, OnAStarEndsAsTheOracleSays) {
  explore_world({0, 0, 0});
}
TEST_P(EveryScheduleOfSets, OnAChainEndsAsTheOracleSays) {
  explore_world({0, 0, 1});
}

const std::map<std::string, std::vector<Rank>> kPair = {{"A", {1, 2}}};
const std::map<std::string, std::vector<Rank>> kOverlap = {{"A", {0, 1}}, {"B", {1, 2}}};
const std::map<std::string, std::vector<Rank>> kDisjoint = {{"A", {0, 2}}, {"B", {1}}};

std::vector<World> worlds_with_sets() {
  const Epoch a = epoch({{"An", "X"}});
  const Epoch b = epoch({{"Bn", "X"}});
  const Epoch n = epoch({{"n", "X"}});
  return {
      {"ASetIsAddedUsedAndRemoved", with_sets(kPair, {{}, {{"A", {a}}}, {{"A", {a}}}}, {"A"})},
      {"OverlappingSetsInAnyOrder",
       with_sets(kOverlap, {{{"A", {a}}}, {{"A", {a}}, {"B", {b}}}, {{"B", {b}}}}),
       4,
       4,
       {"add A", "add B"}},
      {"OverlappingSetsWithOneSlot",
       with_sets(kOverlap, {{{"A", {a}}}, {{"A", {a}}, {"B", {b}}}, {{"B", {b}}}}),
       1,
       1,
       {"add A", "add B"}},
      {"DisjointSets",
       with_sets(kDisjoint, {{{"A", {epoch({{"An", "XX"}})}}},
                             {{"B", {epoch({{"Bn", "X"}})}}},
                             {{"A", {epoch({{"An", "XX"}})}}}}),
       4,
       4,
       {"add A", "add B"}},
      {"ASetBesideTheWorld",
       with_sets(kPair, {{{"", {n}}}, {{"", {n}}, {"A", {a}}}, {{"", {n}}, {"A", {a}}}}),
       4,
       4,
       {"add A"}},
      {"DisagreementInASet",
       with_sets(kPair, {{}, {{"A", {epoch({{"An", "XX"}})}}}, {{"A", {epoch({{"An", "YX"}})}}}}),
       4,
       4,
       {"add A"}},
      {"LeavingWithSets", with_sets(kPair, {{}, {{"A", {a}}}, {{"A", {a}}}}), 4, 1, {"add A"}, {1}},
  };
}

std::vector<World> worlds_with_joins() {
  const Epoch a = epoch({{"An", "X"}});
  const Epoch n = epoch({{"n", "X"}});
  return {
      {"NobodyHasData", {{{{"", {joining({})}}}, {{"", {joining({})}}}, {{"", {joining({})}}}}}},
      {"OneRunsOut",
       {{{{"", {joining({{"n", "X"}})}}}, {{"", {joining({{"n", "X"}})}}}, {{"", {joining({})}}}}}},
      {"OneIsOutAndCounted",
       {{{{"", {joining({}, true)}}},
         {{"", {epoch({{"n", "XX"}})}}},
         {{"", {epoch({{"n", "XX"}})}}}}}},
      {"OneHasDataAlone",
       {{{{"", {joining({})}}}, {{"", {joining({{"n", "XX"}})}}}, {{"", {joining({})}}}}}},
      {"TwoEpochs",
       {{{{"", {joining({}), n}}}, {{"", {joining({{"n", "X"}}), n}}}, {{"", {joining({}), n}}}}}},
      {"DisagreementOfThoseWhoHaveData",
       {{{{"", {joining({{"n", "XX"}})}}},
         {{"", {joining({})}}},
         {{"", {joining({{"n", "YX"}})}}}}}},
      {"TheRootRunsOut", broadcasts({{{{"", {joining({{"n", "XX"}})}}},
                                      {{"", {joining({})}}},
                                      {{"", {joining({{"n", "XX"}})}}}}},
                                    "n", 1)},
      // A join completes "n", whose slot goes to "m" at about the same time.
      {"AJoinMeetsAnEviction",
       {{{{"", {epoch({{"n", "XX"}, {"m", "X"}})}}},
         {{"", {epoch({{"n", "XX"}, {"m", "X"}})}}},
         {{"", {joining({{"n", "X"}})}}}}},
       1,
       1,
       {"n"}},
      {"AJoinMeetsAnEvictionWithMoreCredit",
       {{{{"", {joining({{"n", "X"}})}}},
         {{"", {epoch({{"n", "X"}, {"m", "X"}})}}},
         {{"", {epoch({{"n", "XX"}, {"m", "X"}})}}}}},
       1,
       2,
       {"n"}},
      {"AJoinInASet",
       with_sets(kPair, {{}, {{"A", {joining({{"An", "X"}}), a}}}, {{"A", {joining({}), a}}}}),
       4,
       4,
       {"add A"}},
      {"ASetIsAddedWhileSomebodyHasJoined", adding_ranks({{{{"", {joining({})}}, {"A", {a}}},
                                                           {{"", {Epoch{}}}, {"A", {a}}},
                                                           {{"", {Epoch{}}}}}})},
      {"LeavingWithJoins", {{{{"", {joining({})}}}, {{"", {n}}}, {{"", {n}}}}}, 4, 1, {}, {2}},
  };
}

std::string name_of_world(const testing::TestParamInfo<World>& tested) {
  return tested.param.name;
}

INSTANTIATE_TEST_SUITE_P(Sets, EveryScheduleOfSets, testing::ValuesIn(worlds_with_sets()),
                         name_of_world);
INSTANTIATE_TEST_SUITE_P(Joins, EveryScheduleOfSets, testing::ValuesIn(worlds_with_joins()),
                         name_of_world);

}  // namespace
}  // namespace hvd::engine
