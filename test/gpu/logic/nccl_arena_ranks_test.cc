#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "ops/nccl/nccl_collective.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/nccl_world.h"
#include "test/support/run_ranks.h"

// Arenas of engines over NCCL with as many ranks as threads, each of which has a device.
namespace hvd {
namespace {

using test::run_ranks;
using test::SimRanks;
using ::testing::Each;
using ::testing::IsEmpty;

constexpr int kRanks = 2;

class NcclArenaRanks : public ::testing::Test {
 protected:
  ~NcclArenaRanks() override {
    arenas_.clear();
    ranks_.runtimes.clear();
    EXPECT_THAT(nccl_.problems(), IsEmpty());
  }

  void make_arenas() {
    run_ranks(kRanks, [&](Rank rank) {
      arenas_[static_cast<std::size_t>(rank)] =
          ranks_[rank].make_arena("gradients", 1 << 16, kWorldSet, device_of(rank)).wait();
    });
  }
  static Device device_of(Rank rank) { return {DeviceKind::kCuda, rank}; }
  // Adds up pieces of so many elements, one behind the other in the arena or each on its own, with
  // rank + 1 in all of them; gives the calls of NCCL that this takes a rank.
  int reduce(const std::vector<std::int64_t>& numels, DType dtype, double postscale,
             bool in_arena) {
    const int before = nccl_.calls("ncclAllReduce");
    run_ranks(kRanks, [&](Rank rank) {
      Submission group;
      group.request.name = "group";
      group.request.dtype = dtype;
      group.request.device = DeviceKind::kCuda;
      group.request.postscale = postscale;
      for (const std::int64_t numel : numels) {
        const Lease lease = in_arena ? arenas_[static_cast<std::size_t>(rank)]->take(numel, dtype)
                                     : elsewhere(rank, numel, dtype);
        fill(lease, rank + 1);
        group.request.shapes.push_back({numel});
        group.parts.push_back({.input = lease, .output = lease});
      }
      const Parts parts = group.parts;
      ranks_[rank].submit(std::move(group)).wait();
      for (const Part& part : parts) expect(part.output, 3 * postscale);
    });
    return (nccl_.calls("ncclAllReduce") - before) / kRanks;
  }

  test::NcclWorld nccl_;
  const std::string id_ = make_nccl_id(nccl_.api());
  SimRanks ranks_{kRanks, {}, {}, [this](Rank rank, std::unique_ptr<Collective>) {
                    auto communicator = std::make_shared<NcclCommunicator>(
                        nccl_.api(), id_,
                        NcclCommunicator::Place{.rank = rank, .size = kRanks, .device = rank});
                    return std::make_unique<NcclCollective>(
                        std::make_shared<LaunchQueue>(rank, Duration::zero()), communicator);
                  }};
  std::vector<std::shared_ptr<Arena>> arenas_{kRanks};

 private:
  static Lease elsewhere(Rank rank, std::int64_t numel, DType dtype) {
    const auto memory =
        std::make_shared<std::vector<double>>(static_cast<std::size_t>(numel));  // as wide as any
    return {{memory->data(), numel, dtype, device_of(rank)}, memory};
  }
  template <typename T>
  static std::span<T> values(const Lease& lease) {
    return {static_cast<T*>(lease.view.data), static_cast<std::size_t>(lease.view.numel)};
  }
  static void fill(const Lease& lease, int value) {
    if (lease.view.dtype == DType::kF32) {
      std::ranges::fill(values<float>(lease), static_cast<float>(value));
    } else {
      std::ranges::fill(values<std::int32_t>(lease), value);
    }
  }
  static void expect(const Lease& lease, double value) {
    if (lease.view.dtype == DType::kF32) {
      EXPECT_THAT(values<float>(lease), Each(value));
    } else {
      EXPECT_THAT(values<std::int32_t>(lease), Each(value));
    }
  }
};

TEST_F(NcclArenaRanks, NeighboursOfABatchAreReducedInPlaceByOneCall) {
  make_arenas();
  EXPECT_TRUE(arenas_[0]->shared());
  EXPECT_EQ(nccl_.calls("ncclMemAlloc"), kRanks);
  EXPECT_EQ(reduce({16, 160, 32}, DType::kF32, 0.5, true), 1);
  EXPECT_EQ(reduce({16, 5, 32}, DType::kF32, 1.0, true), 2);  // padding behind the second one
  EXPECT_EQ(nccl_.calls("ncclMemAlloc"), kRanks) << "something was packed";
  EXPECT_EQ(reduce({16, 5, 32}, DType::kI32, 2.0, true), 1);  // which NCCL does not scale
  EXPECT_GT(nccl_.calls("ncclMemAlloc"), kRanks);
}

TEST_F(NcclArenaRanks, WhereOneRankHasNoMemoryThereIsNoneAndTheJobGoesOn) {
  nccl_.fill_device(1);
  make_arenas();
  nccl_.fill_device({});
  for (const auto& arena : arenas_) {
    EXPECT_FALSE(arena->shared());
    EXPECT_EQ(arena->bytes(), 0u);
  }
  EXPECT_EQ(reduce({16, 5, 32}, DType::kF32, 1.0, false), 1);
  make_arenas();
  EXPECT_TRUE(arenas_[1]->shared());
  EXPECT_EQ(reduce({16, 16}, DType::kF32, 1.0, true), 1);
}

}  // namespace
}  // namespace hvd
