#include "test/support/sim/sim_world.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "test/support/collective_contract.h"
#include "test/support/control_plane_contract.h"
#include "test/support/message_of.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;

const Bytes kHello(5, std::byte{42});

std::vector<std::unique_ptr<ControlPlane>> planes_of(SimWorld& world) {
  std::vector<std::unique_ptr<ControlPlane>> planes;
  for (Rank rank = 0; rank < world.size(); ++rank) planes.push_back(world.control_plane(rank));
  return planes;
}

Slice in_place(std::array<float, 3>& values) {
  const TensorView view = {values.data(), 3, DType::kF32, {}};
  return {view, view};
}

TEST(SimWorld, NeedsARank) {
  EXPECT_THROW(SimWorld(0), InvalidArgumentError);
}

TEST(SimWorld, PlacesRanksOnHostsInOrder) {
  SimWorld world(5, {.ranks_per_host = 2});
  const auto planes = planes_of(world);
  EXPECT_EQ(planes[0]->host_of(), (std::vector<int>{0, 0, 1, 1, 2}));
  EXPECT_EQ(planes[3]->topology(), (Topology{3, 5, 1, 2, 1, 2}));
  EXPECT_EQ(planes[4]->topology(), (Topology{4, 5, 0, 1, 2, 3}));
  EXPECT_NE(planes[0]->host_name(1), planes[0]->host_name(2));
}

TEST(SimWorld, AKilledRankIsReportedOnceToEachPeer) {
  SimWorld world(3);
  const auto planes = planes_of(world);
  planes[1]->send(0, kHello);
  world.kill(1);
  for (const Rank survivor : {0, 2}) {
    ControlPlane& plane = *planes[static_cast<std::size_t>(survivor)];
    try {
      plane.poll();
      ADD_FAILURE() << "rank " << survivor << " was told nothing";
    } catch (const LostRankError& lost) {
      EXPECT_EQ(lost.rank(), 1);
      EXPECT_NE(std::string(lost.what()).find("rank 1"), std::string::npos);
    }
    EXPECT_EQ(plane.poll(), std::nullopt);
    plane.send(1, kHello);  // into the void
  }
  planes[2]->send(0, kHello);
  EXPECT_EQ(planes[0]->poll()->from, 2);
}

TEST(SimWorld, AKilledRankReachesNobody) {
  SimWorld world(3);
  const auto planes = planes_of(world);
  world.kill(1);
  EXPECT_THROW(planes[1]->poll(), LostRankError);
  EXPECT_THROW(planes[1]->poll(), LostRankError);
  EXPECT_EQ(planes[1]->poll(), std::nullopt);
}

TEST(SimWorld, AnAbortedControlPlaneIsGoneForItsPeers) {
  SimWorld world(2);
  const auto planes = planes_of(world);
  planes[1]->abort({StatusCode::kInternal, "no disk"});
  EXPECT_EQ(message_of<LostRankError>([&] { planes[0]->poll(); }), "rank 1 is gone: no disk");
}

TEST(SimWorld, ASilentRankIsHeardInOrderOnceItResumes) {
  SimWorld world(2);
  const auto planes = planes_of(world);
  world.silence(1);
  planes[1]->send(0, Bytes(1));
  planes[1]->send(0, Bytes(2));
  EXPECT_EQ(planes[0]->poll(), std::nullopt);
  const auto rings = planes[0]->doorbell().rings();
  world.resume(1);
  EXPECT_NE(planes[0]->doorbell().rings(), rings);
  EXPECT_EQ(planes[0]->poll()->bytes.size(), 1u);
  EXPECT_EQ(planes[0]->poll()->bytes.size(), 2u);
}

TEST(SimWorld, OperationsThatDoNotBelongTogetherFailOnEveryRank) {
  SimWorld world(2);
  test::run_ranks(2, [&](Rank rank) {
    const auto collective = world.collective(rank);
    std::array<float, 3> values = {};
    const Slice slice = in_place(values);
    const auto operation =
        rank == 0 ? collective->all_reduce({&slice, 1}, {}) : collective->broadcast({&slice, 1}, 0);
    EXPECT_THROW(test::finish(*operation, *collective), InternalError);
  });
}

TEST(SimWorld, AWithdrawnOperationIsNeitherReadNorWritten) {
  SimWorld world(2);
  const auto early = world.collective(0);
  const auto late = world.collective(1);
  std::array<float, 3> values = {1, 2, 3};
  const Slice slice = in_place(values);
  auto withdrawn = late->all_reduce({&slice, 1}, {});
  withdrawn.reset();
  const auto waiting = early->all_reduce({&slice, 1}, {});
  EXPECT_FALSE(waiting->advance());
  EXPECT_EQ(values, (std::array<float, 3>{1, 2, 3}));
}

TEST(SimWorld, ASubsetHasTheSameRanksForAll) {
  SimWorld world(3);
  const auto first = world.collective(0);
  const auto second = world.collective(1);
  const Rank pair[] = {0, 1};
  const Rank everyone[] = {0, 1, 2};
  const auto subset = first->subset(5, pair);
  EXPECT_THROW(second->subset(5, everyone), InternalError);
}

TEST(SimWorld, AKilledRankFailsInItsSubsetsToo) {
  SimWorld world(2);
  const auto collective = world.collective(0);
  const Rank pair[] = {0, 1};
  const auto subset = collective->subset(5, pair);
  std::array<float, 3> values = {};
  const Slice slice = in_place(values);
  const auto operation = subset->all_reduce({&slice, 1}, {});
  const auto transfer = subset->receive(slice.input, 1, 0);
  EXPECT_FALSE(operation->advance());
  EXPECT_FALSE(transfer->advance());
  world.kill(0);
  EXPECT_THROW(operation->advance(), AbortedError);
  EXPECT_THROW(transfer->advance(), AbortedError);
}

TEST(AsynchronousSimWorld, EnqueuesAndFinishesAtTheFence) {
  SimWorld world(2, {.asynchronous = true});
  const auto first = world.collective(0);
  std::array<float, 3> mine = {1, 2, 3};
  const Slice slice = in_place(mine);
  const auto operation = first->all_reduce({&slice, 1}, {});
  EXPECT_TRUE(operation->advance());
  const Fence fence = first->fence();
  EXPECT_FALSE(fence.reached());

  const auto second = world.collective(1);
  std::array<float, 3> other = {10, 20, 30};
  const Slice other_slice = in_place(other);
  const auto answer = second->all_reduce({&other_slice, 1}, {});
  fence.wait();
  second->fence().wait();
  EXPECT_EQ(mine, (std::array<float, 3>{11, 22, 33}));
  EXPECT_EQ(other, mine);
}

TEST(AsynchronousSimWorld, AbortFailsOperationsAndFences) {
  SimWorld world(2, {.asynchronous = true});
  const auto collective = world.collective(0);
  std::array<float, 3> values = {};
  const Slice slice = in_place(values);
  const auto operation = collective->all_reduce({&slice, 1}, {});
  const Fence fence = collective->fence();
  collective->abort();
  EXPECT_THROW(fence.wait(), AbortedError);
  EXPECT_TRUE(fence.reached());
  EXPECT_THROW(operation->advance(), AbortedError);
}

TEST(AsynchronousSimWorld, WorkStartsPastAForeignFence) {
  SimWorld producer_world(2, {.asynchronous = true});
  SimWorld world(1, {.asynchronous = true});
  const auto producer = producer_world.collective(0);
  const auto partner = producer_world.collective(1);
  const auto consumer = world.collective(0);
  std::array<float, 3> values = {1, 2, 3};
  std::array<float, 3> others = {1, 1, 1};
  const Slice slice = in_place(values);
  const Slice other_slice = in_place(others);
  const auto producing = producer->all_reduce({&slice, 1}, {});
  consumer->after(producer->fence());
  const auto consuming = consumer->all_reduce({&slice, 1}, {.postscale = 10});
  const Fence consumed = consumer->fence();
  EXPECT_FALSE(consumed.reached());
  const auto answer = partner->all_reduce({&other_slice, 1}, {});
  consumed.wait();
  EXPECT_EQ(values, (std::array<float, 3>{20, 30, 40}));
}

}  // namespace
}  // namespace hvd::engine
