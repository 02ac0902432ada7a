#include "horovod_cpp/tensor/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace hvd {
namespace memory {
namespace {

TEST(Memory, ReusesAFreedBlockOfTheSameSize) {
  release_cache();
  void* first = allocate(100000);
  deallocate(first, 100000);
  void* second = allocate(99000);
  EXPECT_EQ(first, second);
  deallocate(second, 99000);
}

TEST(Memory, WastesAtMostAQuarter) {
  for (std::size_t bytes : {1u, 64u, 65u, 1000u, 4097u, 1000000u, 33554433u}) {
    const std::size_t before = statistics().in_use;
    void* block = allocate(bytes);
    const std::size_t used = statistics().in_use - before;
    EXPECT_GE(used, bytes);
    EXPECT_LE(used, bytes + bytes / 4 + kAlignment);
    std::memset(block, 1, bytes);
    deallocate(block, bytes);
    EXPECT_EQ(statistics().in_use, before);
  }
}

TEST(Memory, NeverKeepsMoreThanWasInUseAtOnce) {
  release_cache();
  // One block of each of many sizes in turn: what is cached grows, but not past the peak.
  for (std::size_t i = 1; i < 400; ++i) {
    const std::size_t bytes = i * 65536;
    deallocate(allocate(bytes), bytes);
    EXPECT_LE(statistics().cached, statistics().peak);
  }
  EXPECT_GT(statistics().cached, 0u);
  release_cache();
  EXPECT_EQ(statistics().cached, 0u);
}

TEST(Memory, DropsFirstWhatNobodyWantedLongest) {
  release_cache();
  const std::size_t once = statistics().peak + 1;  // afterwards it is all that the cache may keep
  deallocate(allocate(once), once);
  constexpr std::size_t kAgain = std::size_t{3} << 20;
  deallocate(allocate(kAgain), kAgain);
  const std::size_t fresh = statistics().fresh;
  for (int i = 0; i < 5; ++i) deallocate(allocate(kAgain), kAgain);
  EXPECT_EQ(statistics().fresh, fresh);
  EXPECT_LE(statistics().cached, statistics().peak);
  release_cache();
}

TEST(Memory, IsAlignedAtEverySize) {
  for (std::size_t bytes = 0; bytes < 600; ++bytes) {
    void* block = allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kAlignment, 0u);
    deallocate(block, bytes);
  }
}

TEST(Memory, LaysLargeBlocksOnHugePages) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  void* block = allocate(kHuge + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kHuge, 0u);
  deallocate(block, kHuge + 1);
}

TEST(Memory, RefusesMoreThanTheSystemHas) {
  EXPECT_THROW(allocate(SIZE_MAX), std::bad_alloc);
}

TEST(Memory, BlocksMayBeFreedByAnotherThread) {
  const std::size_t before = statistics().in_use;
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocate(4096));
  std::thread other([&] {
    for (void* block : blocks) deallocate(block, 4096);
  });
  for (int i = 0; i < 1000; ++i) deallocate(allocate(4096), 4096);
  other.join();
  EXPECT_EQ(statistics().in_use, before);
}

}  // namespace
}  // namespace memory
}  // namespace hvd
