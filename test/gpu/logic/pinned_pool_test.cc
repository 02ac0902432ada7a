#include "ops/cuda/pinned_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "test/gpu/logic/host_cuda.h"

namespace hvd {
namespace {

class Pool : public ::testing::Test {
 protected:
  void SetUp() override { test::reset_host_cuda(); }
};

TEST_F(Pool, WhatIsGivenBackIsUsedAgain) {
  PinnedPool pool(0);
  Buffer first = pool.take(10000);
  EXPECT_GE(first.bytes, 10000u);
  void* const data = first.data;
  first = {};
  EXPECT_EQ(pool.take(9000).data, data);
}

TEST_F(Pool, NothingIsGivenTwice) {
  PinnedPool pool(0);
  const Buffer first = pool.take(100);
  const Buffer second = pool.take(100);
  EXPECT_NE(first.data, second.data);
}

TEST_F(Pool, MuchMemoryIsNotSpentOnLittle) {
  PinnedPool pool(0);
  void* const large = pool.take(std::size_t{1} << 20).data;
  EXPECT_NE(pool.take(100).data, large);
  EXPECT_EQ(pool.take(std::size_t{1} << 19).data, large);
}

TEST_F(Pool, MemoryMayOutliveIt) {
  Buffer kept;
  {
    PinnedPool pool(0);
    kept = pool.take(100);
  }
  static_cast<std::byte*>(kept.data)[99] = std::byte{1};
}

TEST_F(Pool, OnlySoManyAreKept) {
  PinnedPool pool(0);
  std::vector<Buffer> many;
  for (int i = 0; i < 40; ++i) many.push_back(pool.take(100));
  many.clear();
  EXPECT_NE(pool.take(100).data, nullptr);
}

TEST_F(Pool, NothingNeedsNoMemory) {
  PinnedPool pool(0);
  EXPECT_EQ(pool.take(0).data, nullptr);
}

}  // namespace
}  // namespace hvd
