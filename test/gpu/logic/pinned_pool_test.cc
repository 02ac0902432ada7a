#include "ops/cuda/pinned_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/cuda/stream.h"
#include "test/gpu/logic/host_cuda.h"

namespace hvd::engine {
namespace {

using test::host_cuda;

class Pool : public ::testing::Test {
 protected:
  void SetUp() override {
    test::reset_host_cuda();
    host_cuda().devices = 200;
  }

  // All pools of a device are one: each test has one of its own.
  static int new_device() {
    static int last = 100;
    return ++last;
  }
};

TEST_F(Pool, WhatIsGivenBackIsUsedAgain) {
  PinnedPool pool(new_device());
  Buffer first = pool.take(10000);
  EXPECT_GE(first.bytes, 10000u);
  void* const data = first.data;
  first = {};
  EXPECT_EQ(pool.take(9000).data, data);
}

TEST_F(Pool, NothingIsGivenTwice) {
  PinnedPool pool(new_device());
  const Buffer first = pool.take(100);
  const Buffer second = pool.take(100);
  EXPECT_NE(first.data, second.data);
}

TEST_F(Pool, MuchMemoryIsNotSpentOnLittle) {
  PinnedPool pool(new_device());
  void* const large = pool.take(std::size_t{1} << 20).data;
  EXPECT_NE(pool.take(100).data, large);
  EXPECT_EQ(pool.take(std::size_t{1} << 19).data, large);
}

TEST_F(Pool, MemoryMayOutliveIt) {
  Buffer kept;
  {
    PinnedPool pool(new_device());
    kept = pool.take(100);
  }
  static_cast<std::byte*>(kept.data)[99] = std::byte{1};
}

// To free some would wait for the device.
TEST_F(Pool, WhatWasTakenOnceStays) {
  const int device = new_device();
  std::vector<Buffer> many;
  {
    PinnedPool pool(device);
    for (int i = 0; i < 40; ++i) many.push_back(pool.take(100));
  }
  host_cuda().hangs = true;
  CudaStream stream(device);
  test::enqueue_on_host(stream.get(), [] {});
  many.clear();
  const int before = host_cuda().mallocs;
  PinnedPool pool(device);
  for (int i = 0; i < 40; ++i) many.push_back(pool.take(100));
  EXPECT_EQ(host_cuda().mallocs, before);
}

TEST_F(Pool, NothingNeedsNoMemory) {
  PinnedPool pool(new_device());
  EXPECT_EQ(pool.take(0).data, nullptr);
}

}  // namespace
}  // namespace hvd::engine
