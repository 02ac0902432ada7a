#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/base/status.h"
#include "ops/connect/backends.h"
#include "ops/connect/libraries.h"
#include "ops/nccl/module.h"
#include "test/support/collective_contract.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine {
namespace {

NcclModule& module() {
  backends();  // opens it
  const NcclLibrary& library = nccl_library();
  if (library.module == nullptr) throw InternalError(library.detail);
  return *library.module;
}

std::unique_ptr<Collective> make_ipc(SimWorld& world, Rank rank) {
  std::vector<Rank> everyone(static_cast<std::size_t>(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto host = world.collective(rank);
  return module().make_ipc_collective(host->subset(1, everyone), host->subset(2, everyone),
                                      {.rank = rank, .size = world.size()});
}

// The sum over ranks of (rank + 1) * i, as it is after a few all-reduces of `numel` elements.
void expect_sums(Collective& collective, Rank rank, int size, std::size_t numel) {
  std::vector<float> values(numel);
  const Buffer memory = collective.allocate(numel * sizeof(float));
  const TensorView view = {
      memory.data, static_cast<std::int64_t>(numel), DType::kF32, {DeviceKind::kCuda, 0}};
  const Slice slice = {view, view};
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < numel; ++i) {
      values[i] = static_cast<float>(rank + 1) * static_cast<float>(i % 1000);
    }
    ASSERT_EQ(cudaMemcpy(memory.data, values.data(), memory.bytes, cudaMemcpyHostToDevice),
              cudaSuccess);
    test::finish(*collective.all_reduce({&slice, 1}, {}), collective);
    ASSERT_EQ(cudaMemcpy(values.data(), memory.data, memory.bytes, cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (std::size_t i = 0; i < numel; ++i) {
      ASSERT_EQ(values[i], static_cast<float>(size * (size + 1) / 2 * (static_cast<int>(i) % 1000)))
          << "element " << i << " of " << numel << ", rank " << rank;
    }
  }
}

class IpcOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (module().devices() == 0) GTEST_SKIP() << module().describe_devices();
  }
};

TEST_F(IpcOnDevice, OneRankReducesInSteps) {
  SimWorld world(1);
  const auto collective = make_ipc(world, 0);
  for (const std::size_t numel : {1u, 1000u, 5'000'001u}) expect_sums(*collective, 0, 1, numel);
}

// CUDA may refuse to open memory in the process that made it: then all goes by way of the host.
TEST_F(IpcOnDevice, RanksOfOneProcessAreServedEitherWay) {
  SimWorld world(3);
  test::run_ranks(3, [&](Rank rank) {
    const auto collective = make_ipc(world, rank);
    for (const std::size_t numel : {7u, 100'001u, 3'000'001u}) {
      expect_sums(*collective, rank, 3, numel);
    }
  });
}

}  // namespace
}  // namespace hvd::engine
