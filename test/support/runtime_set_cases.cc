// Process sets of running jobs.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/status.h"
#include "test/support/runtime_cases.h"

namespace hvd::engine::test {
namespace {

ProcessSetId added(const RuntimePlace& at, const std::string& name,
                   const std::vector<Rank>& ranks) {
  return static_cast<ProcessSetId>(at.runtime.submit(add_set(name, ranks)).wait().number);
}

void are_known_once_added(const RuntimePlace& at) {
  std::vector<Rank> world;
  for (Rank rank = 0; rank < at.size; ++rank) world.push_back(rank);
  EXPECT_EQ(at.runtime.sets().ids(), (std::vector<ProcessSetId>{0}));
  EXPECT_EQ(at.runtime.sets().find(kWorldSet)->ranks, world);
  const ProcessSetId first = added(at, "first", {0, at.size - 1});
  const ProcessSetId second = added(at, "second", {1});
  EXPECT_NE(first, second);
  EXPECT_EQ(at.runtime.sets().find(first)->ranks, (std::vector<Rank>{0, at.size - 1}));
  EXPECT_EQ(at.runtime.sets().find(second)->ranks, (std::vector<Rank>{1}));
  EXPECT_EQ(at.runtime.sets().ids(), (std::vector<ProcessSetId>{0, first, second}));
}

void refuse_ranks_outside(const RuntimePlace& at) {
  const ProcessSetId set = added(at, "set", {0});
  const auto values = shared<float>({1});
  const auto sum = [&](ProcessSetId id) {
    return in_set(id, allreduce("x", values, ReduceOp::kSum, at.device));
  };
  if (at.rank == 0) {
    at.runtime.submit(sum(set)).wait();
    EXPECT_EQ(values->front(), 1);
  } else {
    EXPECT_THROW(at.runtime.submit(sum(set)), InvalidArgumentError);
  }
  EXPECT_THROW(at.runtime.submit(sum(set + 1)), InvalidArgumentError);
  EXPECT_THROW(at.runtime.sets().find(set + 1), InvalidArgumentError);
  at.runtime.submit(remove_set("away", set)).wait();
  EXPECT_EQ(at.runtime.sets().ids(), (std::vector<ProcessSetId>{0}));
  EXPECT_THROW(at.runtime.submit(sum(set)), InvalidArgumentError);
  EXPECT_THROW(at.runtime.submit(remove_set("again", set)), InvalidArgumentError);
  EXPECT_NE(added(at, "other", {0}), set) << "a number was used twice";
}

void average_over_their_own_ranks(const RuntimePlace& at) {
  std::vector<Rank> sides[2];
  for (Rank rank = 0; rank < at.size; ++rank) sides[rank % 2].push_back(rank);
  const ProcessSetId even = added(at, "even", sides[0]);
  const ProcessSetId odd = added(at, "odd", sides[1]);
  float sum = 0;
  const std::vector<Rank>& mine = sides[at.rank % 2];
  for (const Rank rank : mine) sum += static_cast<float>(rank);
  const auto values = shared<float>({static_cast<float>(at.rank)});
  at.runtime
      .submit(in_set(at.rank % 2 == 0 ? even : odd,
                     allreduce("x", values, ReduceOp::kAverage, at.device)))
      .wait();
  EXPECT_EQ(values->front(), sum / static_cast<float>(mine.size()));
}

// Overlapping ones, made and removed one after the other, with tensors in flight in all of them.
void come_and_go(const RuntimePlace& at) {
  for (int round = 0; round < 20; ++round) {
    const std::string number = std::to_string(round);
    const ProcessSetId all = added(at, "all " + number, at.runtime.sets().find(kWorldSet)->ranks);
    const ProcessSetId some = added(at, "some " + number, {0, 1});
    std::vector<Values<float>> values;
    std::vector<Handle> handles;
    const auto add = [&](ProcessSetId set) {
      values.push_back(shared(std::vector<float>(5000, 1)));
      handles.push_back(
          at.runtime.submit(in_set(set, allreduce("x", values.back(), ReduceOp::kSum, at.device))));
    };
    add(all);
    add(kWorldSet);
    if (at.rank < 2) add(some);
    for (const Handle& handle : handles) handle.wait();
    EXPECT_EQ(values[0]->back(), static_cast<float>(at.size));
    EXPECT_EQ(values[1]->back(), static_cast<float>(at.size));
    if (at.rank < 2) {
      EXPECT_EQ(values[2]->back(), 2);
    }
    at.runtime.submit(remove_set("some away " + number, some)).wait();
    at.runtime.submit(remove_set("all away " + number, all)).wait();
  }
}

}  // namespace

void add_runtime_set_cases(RuntimeCases& cases) {
  cases.push_back({"SetsAreKnownOnEveryRankOnceAdded", are_known_once_added});
  cases.push_back({"SetsRefuseRanksOutsideAndTensorsAfterTheRemoval", refuse_ranks_outside});
  cases.push_back({"SetsTakeAnAverageOverTheirOwnRanks", average_over_their_own_ranks});
  cases.push_back({"SetsComeAndGo", come_and_go});
}

}  // namespace hvd::engine::test
