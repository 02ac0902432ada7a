#include "runner/output/tracebacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd::runner {

bool operator==(const Tracebacks::Piece& a, const Tracebacks::Piece& b) {
  return a.ranks == b.ranks && a.text == b.text;
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Piece = Tracebacks::Piece;
using Ranks = std::vector<int>;

const std::string kTraceback =
    "Traceback (most recent call last):\n  File \"m.py\", line 3\nValueError: lr\n";

TEST(Tracebacks, LetEverythingElsePass) {
  Tracebacks tracebacks(2);
  tracebacks.feed(0, "half a li", {});
  tracebacks.feed(0, "ne\nNo Traceback (most recent call last):\n", {});
  EXPECT_THAT(tracebacks.take(),
              ElementsAre(Piece{{0}, "half a li"},
                          Piece{{0}, "ne\nNo Traceback (most recent call last):\n"}));
  EXPECT_FALSE(tracebacks.due().has_value());
}

TEST(Tracebacks, ThatAreEqualComeOutAsOneWhenAllHaveEnded) {
  Tracebacks tracebacks(4);
  for (const int rank : {2, 0, 3}) tracebacks.feed(rank, kTraceback, {});
  tracebacks.feed(1, "warning\nTraceback (most recent call last):\n", {});
  tracebacks.feed(1, "KeyError\n", {});
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{1}, "warning\n"}));
  for (const int rank : {2, 0, 3}) tracebacks.rank_done(rank, {});
  EXPECT_THAT(tracebacks.take(), IsEmpty());
  tracebacks.rank_done(1, {});
  EXPECT_THAT(tracebacks.take(),
              ElementsAre(Piece{{0, 2, 3}, kTraceback},
                          Piece{{1}, "Traceback (most recent call last):\nKeyError\n"}));
}

TEST(Tracebacks, DoNotWaitForRanksThatGoOn) {
  Tracebacks tracebacks(3);
  tracebacks.feed(0, kTraceback, {});
  tracebacks.feed(1, kTraceback, {});
  tracebacks.rank_done(0, {});
  tracebacks.rank_done(1, {});
  ASSERT_EQ(tracebacks.due(), TimePoint{} + Tracebacks::kOthersEnd);
  tracebacks.flush_due(TimePoint{} + Tracebacks::kOthersEnd);
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0, 1}, kTraceback}));
}

TEST(Tracebacks, AfterWhichTheRankGoesOnAreShownSoon) {
  Tracebacks tracebacks(2);
  tracebacks.feed(0, kTraceback, {});
  ASSERT_EQ(tracebacks.due(), TimePoint{} + Tracebacks::kRankEnds);
  tracebacks.flush_due(TimePoint{} + Tracebacks::kRankEnds);
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0}, kTraceback}));
  tracebacks.feed(0, "went on\n", {});
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0}, "went on\n"}));
}

TEST(Tracebacks, ThatAreEqualComeOutAsOneAlsoIfTheRanksTakeLongToEnd) {
  Tracebacks tracebacks(4);
  const TimePoint later = TimePoint{} + Tracebacks::kRankEnds / 2;
  tracebacks.feed(1, kTraceback, {});
  tracebacks.feed(0, kTraceback, later);
  tracebacks.feed(2, "Traceback (most recent call last):\nKeyError\n", later);
  tracebacks.flush_due(TimePoint{} + Tracebacks::kRankEnds);
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0, 1}, kTraceback}));
}

TEST(Tracebacks, ThatAreVeryLongAreNotHeld) {
  Tracebacks tracebacks(2);
  const std::string text = kTraceback + std::string(100'000, 'x') + "\n";
  tracebacks.feed(0, text, {});
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0}, text}));
}

TEST(Tracebacks, AreAllShownInTheEnd) {
  Tracebacks tracebacks(3);
  tracebacks.feed(0, kTraceback, {});
  tracebacks.feed(1, kTraceback, {});
  tracebacks.rank_done(1, {});
  tracebacks.finish();
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0, 1}, kTraceback}));
}

}  // namespace
}  // namespace hvd::runner
