#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "ops/nccl/nccl_collective.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/nccl_on_host.h"
#include "test/support/run_ranks.h"

// Arenas of engines over NCCL with as many ranks as threads, each of which has a device.
namespace hvd::engine {
namespace {

using test::run_ranks;
using test::SimRanks;
using ::testing::Each;
using ::testing::IsEmpty;

constexpr int kRanks = 2;

std::atomic<int> all_reduces;
std::atomic<int> allocations;
std::atomic<int> full_device;  // without memory for NCCL; -1 = none

// NCCL on the host; its calls are counted.
NcclApi counted_nccl() {
  test::reset_host_cuda();
  test::host_cuda().devices = kRanks;
  all_reduces = 0;
  allocations = 0;
  full_device = -1;
  NcclApi api = test::nccl_on_host();
  api.all_reduce = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                      ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
    ++all_reduces;
    return test::nccl_on_host().all_reduce(from, to, count, type, op, communicator, stream);
  };
  api.mem_alloc = [](void** data, std::size_t bytes) {
    ++allocations;
    if (test::HostCuda::current_device == full_device) return ncclUnhandledCudaError;
    return test::nccl_on_host().mem_alloc(data, bytes);
  };
  return api;
}

class NcclArenaRanks : public ::testing::Test {
 protected:
  ~NcclArenaRanks() override {
    arenas_.clear();
    ranks_.runtimes.clear();
    EXPECT_THAT(test::take_nccl_problems(), IsEmpty());
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
    const int before = all_reduces;
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
    return (all_reduces - before) / kRanks;
  }

  const NcclApi nccl_ = counted_nccl();
  const std::string id_ = make_nccl_id(nccl_);
  SimRanks ranks_{kRanks, {}, {}, [this](Rank rank, std::unique_ptr<Collective>) {
                    auto communicator = std::make_shared<NcclCommunicator>(
                        nccl_, id_,
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
  EXPECT_EQ(allocations, kRanks);
  EXPECT_EQ(reduce({16, 160, 32}, DType::kF32, 0.5, true), 1);
  EXPECT_EQ(reduce({16, 5, 32}, DType::kF32, 1.0, true), 2);  // padding behind the second one
  EXPECT_EQ(allocations, kRanks) << "something was packed";
  EXPECT_EQ(reduce({16, 5, 32}, DType::kI32, 2.0, true), 1);  // which NCCL does not scale
  EXPECT_GT(allocations, kRanks);
}

TEST_F(NcclArenaRanks, WhereOneRankHasNoMemoryThereIsNoneAndTheJobGoesOn) {
  full_device = 1;
  make_arenas();
  full_device = -1;
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
}  // namespace hvd::engine
