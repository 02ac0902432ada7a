#include "ops/nccl/module.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/base/status.h"
#include "ops/connect/backends.h"
#include "ops/connect/libraries.h"

namespace hvd::engine {
namespace {

NcclModule& module() {
  backends();  // opens it
  const NcclLibrary& library = nccl_library();
  if (library.module == nullptr) throw InternalError(library.detail);
  return *library.module;
}

void finish(Operation& operation, Collective& collective) {
  while (!operation.advance()) std::this_thread::yield();
  collective.fence().wait();
}

// Device memory that holds `values`.
Buffer upload(Collective& collective, const std::vector<float>& values) {
  Buffer buffer = collective.allocate(values.size() * sizeof(float));
  EXPECT_EQ(cudaMemcpy(buffer.data, values.data(), buffer.bytes, cudaMemcpyHostToDevice),
            cudaSuccess);
  return buffer;
}

std::vector<float> download(const Buffer& buffer) {
  std::vector<float> values(buffer.bytes / sizeof(float));
  EXPECT_EQ(cudaMemcpy(values.data(), buffer.data, buffer.bytes, cudaMemcpyDeviceToHost),
            cudaSuccess);
  return values;
}

TensorView view(const Buffer& buffer) {
  return {buffer.data,
          static_cast<std::int64_t>(buffer.bytes / sizeof(float)),
          DType::kF32,
          {DeviceKind::kCuda, 0}};
}

class OneDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (module().devices() == 0) GTEST_SKIP() << module().describe_devices();
    collective_ = module().make_collective(module().make_id(), {});
  }
  std::unique_ptr<Collective> collective_;
};

TEST_F(OneDevice, AllReduceScalesInPlaceAndInto) {
  const Buffer a = upload(*collective_, {1, 2, 4});
  const Buffer b = upload(*collective_, {8, 16});
  const Buffer out = upload(*collective_, {0, 0});
  const std::vector<Slice> slices = {{view(a), view(a)}, {view(b), view(out)}};
  finish(*collective_->all_reduce(slices, {ReduceOp::kSum, 0.5, 1.0}), *collective_);
  EXPECT_EQ(download(a), (std::vector<float>{0.5, 1, 2}));
  EXPECT_EQ(download(out), (std::vector<float>{4, 8}));
  EXPECT_EQ(download(b), (std::vector<float>{8, 16}));
}

TEST_F(OneDevice, MovesAndExchanges) {
  const Buffer in = upload(*collective_, {3, 5});
  const Buffer out = upload(*collective_, {0, 0});
  const std::vector<GatherSlice> gathers = {{in.data, out.data, {in.bytes}}};
  finish(*collective_->all_gather(gathers), *collective_);
  EXPECT_EQ(download(out), (std::vector<float>{3, 5}));
  const std::vector<std::int64_t> mine = {7, 9};
  std::vector<std::int64_t> all(2);
  finish(*collective_->exchange(mine, all), *collective_);
  EXPECT_EQ(all, mine);
}

TEST_F(OneDevice, ASubsetWorksBehindItsParent) {
  const std::vector<Rank> ranks = {0};
  const auto subset = collective_->subset(1, ranks);
  const Buffer a = upload(*collective_, {6});
  const std::vector<Slice> slices = {{view(a), view(a)}};
  finish(*subset->broadcast(slices, 0), *subset);
  EXPECT_EQ(download(a), (std::vector<float>{6}));
}

TEST_F(OneDevice, AfterAbortOperationsThrow) {
  const Buffer a = upload(*collective_, {6});
  const std::vector<Slice> slices = {{view(a), view(a)}};
  collective_->abort();
  EXPECT_THROW(finish(*collective_->broadcast(slices, 0), *collective_), AbortedError);
}

TEST_F(OneDevice, TransfersAreRefusedByName) {
  const Buffer a = upload(*collective_, {6});
  EXPECT_THROW(collective_->send(view(a), 0, 0), UnsupportedError);
  EXPECT_THROW(collective_->receive(view(a), 0, 0), UnsupportedError);
}

}  // namespace
}  // namespace hvd::engine
