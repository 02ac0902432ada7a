#include "core/negotiate/slot_allocator.h"

#include <gtest/gtest.h>

namespace hvd {
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

}  // namespace
}  // namespace hvd
