#include "core/base/recycling_allocator.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

namespace hvd {
namespace {

struct Call {
  std::array<int, 50> numbers{};
};

TEST(RecyclingAllocator, GivesWhatWasFreedLast) {
  RecyclingAllocator<Call> allocator;
  Call* const first = allocator.allocate(1);
  Call* const second = allocator.allocate(1);
  EXPECT_NE(first, second);
  allocator.deallocate(first, 1);
  allocator.deallocate(second, 1);
  EXPECT_EQ(allocator.allocate(1), second);
  EXPECT_EQ(allocator.allocate(1), first);
  allocator.deallocate(first, 1);
  allocator.deallocate(second, 1);
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
