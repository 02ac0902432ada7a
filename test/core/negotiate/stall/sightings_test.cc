#include "core/negotiate/stall/sightings.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

using std::chrono::seconds;

constexpr Duration kPatience = seconds(15);

Sighting answer(Rank rank, std::uint64_t ask) {
  Sighting sighting;
  sighting.rank = rank;
  sighting.ask = ask;
  return sighting;
}

TEST(Sightings, WhoWasNeverAskedIsNotSilent) {
  const Sightings sightings;
  EXPECT_FALSE(sightings.silent(2, TimePoint{} + seconds(100), kPatience));
  EXPECT_EQ(sightings.find(2), nullptr);
}

TEST(Sightings, SilentIsWhoLeftAQuestionOpenForTooLong) {
  Sightings sightings;
  sightings.asked(TimePoint{} + seconds(30));
  EXPECT_FALSE(sightings.silent(2, TimePoint{} + seconds(44), kPatience));
  EXPECT_TRUE(sightings.silent(2, TimePoint{} + seconds(45), kPatience));
  sightings.take(answer(2, 1));
  EXPECT_FALSE(sightings.silent(2, TimePoint{} + seconds(100), kPatience));
  ASSERT_NE(sightings.find(2), nullptr);
}

TEST(Sightings, AFreshQuestionBlamesNobody) {
  Sightings sightings;
  sightings.asked(TimePoint{} + seconds(30));
  sightings.take(answer(2, 1));
  sightings.asked(TimePoint{} + seconds(59));
  EXPECT_FALSE(sightings.silent(2, TimePoint{} + seconds(60), kPatience));
  EXPECT_TRUE(sightings.silent(2, TimePoint{} + seconds(74), kPatience));
}

TEST(Sightings, QuestionsInQuickSuccessionDoNotExcuseSilence) {
  Sightings sightings;
  for (int second = 0; second < 100; second += 20) sightings.asked(TimePoint{} + seconds(second));
  EXPECT_TRUE(sightings.silent(2, TimePoint{} + seconds(90), kPatience));
}

}  // namespace
}  // namespace hvd
