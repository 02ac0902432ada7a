#include "core/base/allocators.h"

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace hvd {
namespace {

struct Call {
  std::array<int, 50> numbers{};
};

TEST(FreeBlocks, GivesWhatWasFreedLast) {
  using Blocks = FreeBlocks<1000>;
  EXPECT_EQ(Blocks::take(), nullptr);
  EXPECT_EQ(Blocks::take(), nullptr);
  void* const first = ::operator new(1000);
  void* const second = ::operator new(1000);
  EXPECT_TRUE(Blocks::keep(first));
  EXPECT_TRUE(Blocks::keep(second));
  EXPECT_EQ(Blocks::take(), second);
  EXPECT_EQ(Blocks::take(), first);
  ::operator delete(first);
  ::operator delete(second);
}

TEST(FreeBlocks, KeepsNoMoreThanWereTaken) {
  using Blocks = FreeBlocks<1001>;
  void* const others = ::operator new(1001);
  EXPECT_FALSE(Blocks::keep(others));
  EXPECT_EQ(Blocks::take(), nullptr);
  EXPECT_TRUE(Blocks::keep(others));
  EXPECT_FALSE(Blocks::keep(others));
}

TEST(RecyclingAllocator, KeepsNoArrays) {
  std::vector<Call, RecyclingAllocator<Call>> calls(3);
  calls[2].numbers[49] = 7;
  calls.resize(100);
  EXPECT_EQ(calls[2].numbers[49], 7);
}

TEST(RecyclingAllocator, TakesBackWhatAnotherThreadMade) {
  std::shared_ptr<Call> call;
  std::thread([&] { call = make_recycled<Call>(); }).join();
  call->numbers[0] = 1;
  call.reset();
  EXPECT_EQ(make_recycled<Call>()->numbers[0], 0);
}

TEST(RecyclingAllocator, KeepsNoMoreThanItSays) {
  std::vector<std::shared_ptr<Call>> calls;
  for (int i = 0; i < 10'000; ++i) calls.push_back(make_recycled<Call>());
  calls.clear();
  for (int i = 0; i < 10'000; ++i) calls.push_back(make_recycled<Call>());
  for (const auto& call : calls) EXPECT_EQ(call->numbers[0], 0);
}

// Whatever was made first goes last, after the blocks of its thread.
TEST(RecyclingAllocator, FreesWhatOutlivesTheBlocksOfItsThread) {
  std::thread([] {
    thread_local std::shared_ptr<Call> outlives;
    static_cast<void>(outlives.use_count());
    make_recycled<Call>().reset();
    outlives = make_recycled<Call>();
  }).join();
}

}  // namespace
}  // namespace hvd
