#include "runner/output/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd::runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Piece = std::pair<std::vector<int>, std::string>;

// Tracebacks, and what they showed.
struct Held : Tracebacks {
  explicit Held(int np)
      : Tracebacks(np, [this](std::span<const int> ranks, std::string_view text) {
          shown.emplace_back(std::vector<int>(ranks.begin(), ranks.end()), text);
        }) {}
  std::vector<Piece> take() { return std::exchange(shown, {}); }
  std::vector<Piece> shown;
};

const std::string kTraceback =
    "Traceback (most recent call last):\n  File \"m.py\", line 3\nValueError: lr\n";

TEST(Tracebacks, LetEverythingElsePass) {
  Held tracebacks(2);
  tracebacks.feed(0, "half a li", {});
  tracebacks.feed(0, "ne\nNo Traceback (most recent call last):\n", {});
  EXPECT_THAT(tracebacks.take(),
              ElementsAre(Piece{{0}, "half a li"},
                          Piece{{0}, "ne\nNo Traceback (most recent call last):\n"}));
  EXPECT_EQ(tracebacks.due(), TimePoint::max());
}

TEST(Tracebacks, ThatAreEqualComeOutAsOneWhenAllHaveEnded) {
  Held tracebacks(4);
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
  Held tracebacks(3);
  tracebacks.feed(0, kTraceback, {});
  tracebacks.feed(1, kTraceback, {});
  tracebacks.rank_done(0, {});
  tracebacks.rank_done(1, {});
  ASSERT_EQ(tracebacks.due(), TimePoint{} + Tracebacks::kOthersEnd);
  tracebacks.flush_due(TimePoint{} + Tracebacks::kOthersEnd);
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0, 1}, kTraceback}));
}

TEST(Tracebacks, AfterWhichTheRankGoesOnAreShownSoon) {
  Held tracebacks(2);
  tracebacks.feed(0, kTraceback, {});
  ASSERT_EQ(tracebacks.due(), TimePoint{} + Tracebacks::kRankEnds);
  tracebacks.flush_due(TimePoint{} + Tracebacks::kRankEnds);
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0}, kTraceback}));
  tracebacks.feed(0, "went on\n", {});
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0}, "went on\n"}));
}

TEST(Tracebacks, ThatAreEqualComeOutAsOneAlsoIfTheRanksTakeLongToEnd) {
  Held tracebacks(4);
  const TimePoint later = TimePoint{} + Tracebacks::kRankEnds / 2;
  tracebacks.feed(1, kTraceback, {});
  tracebacks.feed(0, kTraceback, later);
  tracebacks.feed(2, "Traceback (most recent call last):\nKeyError\n", later);
  tracebacks.flush_due(TimePoint{} + Tracebacks::kRankEnds);
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0, 1}, kTraceback}));
}

TEST(Tracebacks, ThatAreVeryLongAreNotHeld) {
  Held tracebacks(2);
  const std::string text = kTraceback + std::string(100'000, 'x') + "\n";
  tracebacks.feed(0, text, {});
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0}, text}));
}

TEST(Tracebacks, AreAllShownInTheEnd) {
  Held tracebacks(3);
  tracebacks.feed(0, kTraceback, {});
  tracebacks.feed(1, kTraceback, {});
  tracebacks.rank_done(1, {});
  tracebacks.finish();
  EXPECT_THAT(tracebacks.take(), ElementsAre(Piece{{0, 1}, kTraceback}));
}

}  // namespace
}  // namespace hvd::runner
