#include "horovod_cpp/distributed/collectives/process_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ProcessSet, OfAllRanksIsNumberZero) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const ProcessSet all = world->global_process_set();
    EXPECT_EQ(all.id(), 0u);
    EXPECT_THAT(all.ranks(), ElementsAre(0, 1, 2));
    EXPECT_EQ(all.rank(), world->topology().rank);
    EXPECT_TRUE(all.included());
    EXPECT_EQ(all, world->process_set(0));
  });
}

TEST(ProcessSet, ThatIsAddedHasItsRanksInOrderAndANumber) {
  run_worlds(4, [](const std::shared_ptr<World>& world) {
    const ProcessSet odd = world->add_process_set({3, 1});
    const ProcessSet even = world->add_process_set({0, 2});
    EXPECT_EQ(odd.id(), 1u);
    EXPECT_EQ(even.id(), 2u);
    EXPECT_THAT(odd.ranks(), ElementsAre(1, 3));
    EXPECT_THAT(world->process_set_ids(), ElementsAre(0, 1, 2));
    EXPECT_EQ(world->process_set(1), odd);
    const Rank mine = world->topology().rank;
    EXPECT_EQ(odd.included(), mine % 2 == 1);
    EXPECT_EQ((mine % 2 == 1 ? odd : even).rank(), mine / 2);
  });
}

TEST(ProcessSet, CollectivesRunAmongItsRanksWithRootsOfTheJob) {
  run_worlds(4, [](const std::shared_ptr<World>& world) {
    const Rank mine = world->topology().rank;
    const ProcessSet odd = world->add_process_set({1, 3});
    const ProcessSet even = world->add_process_set({0, 2});
    const ProcessSet set = mine % 2 == 1 ? odd : even;
    const Tensor value = Tensor::full({2}, mine);
    // The same name in both sets at once.
    EXPECT_EQ(
        allreduce(value, {.op = ReduceOp::kSum, .name = "x", .process_set = set}).to_vector()[0],
        mine % 2 == 1 ? 4 : 2);
    EXPECT_EQ(allreduce(value, {.name = "x", .process_set = set}).to_vector()[0],
              mine % 2 == 1 ? 2 : 1);
    EXPECT_EQ(broadcast(value, set.ranks()[1], {.process_set = set}).to_vector()[0],
              mine % 2 == 1 ? 3 : 2);
    const Tensor rows = Tensor::full({3}, 1);
    EXPECT_EQ(reducescatter(rows, {.process_set = set}).size(0), set.rank() == 0 ? 2 : 1);
    const AlltoallResult got = alltoall(Tensor::full({2}, mine), {.process_set = set});
    EXPECT_THAT(got.output.to_vector(), ElementsAre(set.ranks()[0], set.ranks()[1]));
    barrier({.process_set = set});
    EXPECT_EQ(allgather_object(Bytes(3), "", set).size(), 2u);
    barrier({.process_set = world->global_process_set()});  // nobody leaves before
  });
}

TEST(ProcessSet, OverlappingSetsInDifferentOrdersDoNotDeadlock) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const ProcessSet low = world->add_process_set({0, 1});
    const ProcessSet high = world->add_process_set({1, 2});
    const Rank mine = world->topology().rank;
    for (int round = 0; round < 20; ++round) {
      std::vector<CollectiveHandle> handles;
      std::vector<ProcessSet> order = {low, high, world->global_process_set()};
      if (mine % 2 == 1) std::reverse(order.begin(), order.end());
      for (const ProcessSet& set : order) {
        if (!set.included()) continue;
        handles.push_back(allreduce_async(Tensor::ones({4}),
                                          {.op = ReduceOp::kSum, .name = "x", .process_set = set}));
      }
      synchronize_all(handles);
    }
    barrier({.process_set = world->global_process_set()});
  });
}

TEST(ProcessSet, CallsOfARankOutsideAreRefusedNamingSetAndRank) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    const ProcessSet first = world->add_process_set({0});
    if (world->topology().rank == 0) return;
    const std::string error = message_of<InvalidArgumentError>(
        [&] { allreduce(Tensor::ones({2}), {.process_set = first}); });
    EXPECT_THAT(error, HasSubstr("rank 1 is not in process set 1, which has rank 0"));
    EXPECT_THROW(barrier({.process_set = first}), InvalidArgumentError);
    EXPECT_THROW(first.rank(), InvalidArgumentError);
  });
}

TEST(ProcessSet, BadDefinitionsAreRefused) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    const auto complaint = [&](std::vector<Rank> ranks) {
      return message_of<InvalidArgumentError>([&] { world->add_process_set(ranks); });
    };
    EXPECT_THAT(complaint({}), HasSubstr("at least one rank"));
    EXPECT_THAT(complaint({1, 1}), HasSubstr("rank 1 appears twice"));
    EXPECT_THAT(complaint({0, 2}), HasSubstr("rank 2 is not in this job of 2"));
    EXPECT_THAT(complaint({-1}), HasSubstr("rank -1"));
    EXPECT_THROW(world->process_set(9), InvalidArgumentError);
  });
}

TEST(ProcessSet, SeveralOfTheSameRanksAreSetsOfTheirOwn) {
  for (const int size : {1, 2}) {
    run_worlds(size, [&](const std::shared_ptr<World>& world) {
      const std::vector<Rank> all = world->global_process_set().ranks();
      const ProcessSet first = world->add_process_set(all);
      const ProcessSet second = world->add_process_set(all);
      EXPECT_EQ(first.id(), 1u);
      EXPECT_EQ(second.id(), 2u);
      // Each rank calls in another order: calls of different sets do not meet.
      const bool forward = world->topology().rank == 0;
      const auto one = allreduce_async(
          Tensor::ones({2}),
          {.op = ReduceOp::kSum, .name = "x", .process_set = forward ? first : second});
      const auto two = allreduce_async(
          Tensor::ones({2}),
          {.op = ReduceOp::kSum, .name = "x", .process_set = forward ? second : first});
      EXPECT_EQ(one.synchronize().data<float>()[0], static_cast<float>(size));
      EXPECT_EQ(two.synchronize().data<float>()[0], static_cast<float>(size));
      EXPECT_TRUE(world->remove_process_set(first));
      EXPECT_EQ(allreduce(Tensor::ones({2}), {.op = ReduceOp::kSum, .process_set = second})
                    .data<float>()[0],
                static_cast<float>(size));
    });
  }
}

TEST(ProcessSet, DefinitionsThatDifferAreAnErrorOnEveryRankAndTheJobGoesOn) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const Rank mine = world->topology().rank;
    EXPECT_THROW(world->add_process_set({0, mine == 2 ? 2 : 1}), MismatchError);
    EXPECT_EQ(world->add_process_set({0, 1}).size(), 2);
  });
}

TEST(ProcessSet, ThatWasRemovedServesNoMoreCallsAndIsNotRemovedTwice) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    const ProcessSet set = world->add_process_set({0});
    EXPECT_TRUE(world->remove_process_set(set));
    EXPECT_FALSE(world->remove_process_set(set));
    EXPECT_FALSE(world->remove_process_set(world->global_process_set()));
    if (world->topology().rank == 0) {
      EXPECT_THROW(allreduce(Tensor::ones({2}), {.process_set = set}), InvalidArgumentError);
    }
    EXPECT_EQ(world->add_process_set({0}).id(), 2u);  // numbers are not reused
  });
}

TEST(ProcessSet, OfAJobThatEndedSaysSo) {
  ProcessSet kept;
  run_worlds(1, [&](const std::shared_ptr<World>& world) { kept = world->global_process_set(); });
  EXPECT_THROW(kept.world(), AbortedError);
  EXPECT_THROW(allreduce(Tensor::ones({2}), {.process_set = kept}), AbortedError);
  EXPECT_THROW(ProcessSet().size(), InvalidArgumentError);  // before init()
}

}  // namespace
}  // namespace hvd
