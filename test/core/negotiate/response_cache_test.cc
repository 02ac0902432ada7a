#include "core/negotiate/response_cache.h"

#include <gtest/gtest.h>

#include "test/core/negotiate/negotiate_builders.h"

namespace hvd::engine {
namespace {

SlotNumber run_new(SlotAllocator& slots) {
  const SlotNumber slot = slots.take();
  slots.keep(slot);
  slots.ran(slot);
  return slot;
}

TEST(SlotAllocator, GivesUpTheLeastRecentlyRunSlot) {
  SlotAllocator slots(3);
  const SlotNumber a = run_new(slots);
  const SlotNumber b = run_new(slots);
  run_new(slots);
  EXPECT_TRUE(slots.full());
  EXPECT_EQ(slots.least_recent(), a);
  slots.ran(a);
  EXPECT_EQ(slots.least_recent(), b);
}

TEST(SlotAllocator, NeverGivesUpASlotThatWaitsToRun) {
  SlotAllocator slots(2);
  const SlotNumber a = run_new(slots);
  const SlotNumber b = run_new(slots);
  slots.set_busy(a);
  EXPECT_EQ(slots.least_recent(), b);
  slots.set_busy(b);
  EXPECT_EQ(slots.least_recent(), std::nullopt);
}

TEST(SlotAllocator, ReusesNumbers) {
  SlotAllocator slots(1);
  const SlotNumber a = run_new(slots);
  slots.free(a);
  EXPECT_FALSE(slots.full());
  EXPECT_EQ(slots.least_recent(), std::nullopt);
  EXPECT_EQ(slots.take(), a);
}

using test::gradient;
using test::shared;

ResponseCache cache_of(const std::vector<std::string>& names) {
  ResponseCache cache;
  for (const std::string& name : names) {
    cache.define(static_cast<SlotNumber>(cache.size()), shared(gradient(name)), false);
  }
  return cache;
}

TEST(ResponseCache, FindsTheNextNameInAnyOrderAndInTheSameOneAgain) {
  ResponseCache cache = cache_of({"a", "b", "c"});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(cache.find_next("b"), 1u);
    EXPECT_EQ(cache.find_next("a"), 0u);
    EXPECT_EQ(cache.find_next("nobody's"), std::nullopt);
    EXPECT_EQ(cache.find_next("c"), 2u);
  }
  EXPECT_EQ(cache.find_next("a"), 0u);
  EXPECT_EQ(cache.find_next("b"), 1u);
}

TEST(ResponseCache, DoesNotFindAnErasedNameWhereItWasNext) {
  ResponseCache cache = cache_of({"a", "b"});
  for (const char* name : {"a", "b", "a"}) EXPECT_TRUE(cache.find_next(name));
  cache.erase(1);
  EXPECT_EQ(cache.find_next("b"), std::nullopt);
  cache.define(1, shared(gradient("c")), false);
  EXPECT_EQ(cache.find_next("a"), 0u);
  EXPECT_EQ(cache.find_next("c"), 1u);
  EXPECT_EQ(cache.find_next("b"), std::nullopt);
}

}  // namespace
}  // namespace hvd::engine
