#include "runner/output/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd::runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Stream kOut = Stream::kStdout;
constexpr Stream kErr = Stream::kStderr;

// Feeds an OutputPrinter at times of the test's choosing and shows what a reader would see.
class Screen {
 public:
  explicit Screen(bool one_terminal = false)
      : printer(one_terminal, [this](Stream stream, const std::string& text) {
          (stream == kOut ? out : err) += text;
          both += text;
        }) {}
  void feed(int rank, const std::string& text, Stream stream = kOut) {
    printer.feed(rank, stream, text, now);
  }
  void wait() {
    now += OutputPrinter::kPartialDelay;
    printer.flush_due(now);
  }
  void finish() { printer.finish(); }

  OutputPrinter printer;
  TimePoint now{};
  std::string out;
  std::string err;
  std::string both;
};

TEST(OutputPrinter, PutsTheRankBeforeEachLineAndKeepsStreamsApart) {
  Screen screen;
  screen.feed(1, "a\nb\n");
  screen.feed(0, "c\n", kErr);
  EXPECT_EQ(screen.out, "[1] a\n[1] b\n");
  EXPECT_EQ(screen.err, "[0] c\n");
}

TEST(OutputPrinter, PutsTheTimeBehindTheRankWhenAsked) {
  int calls = 0;
  std::string shown;
  OutputPrinter printer(
      false, [&](Stream, const std::string& text) { shown += text; },
      [&] { return "t" + std::to_string(++calls); });
  printer.feed(1, kOut, "a\nb\n", {});
  EXPECT_EQ(shown, "[1] t1 a\n[1] t2 b\n");
}

TEST(OutputPrinter, HoldsAPartOfALineUntilTheRestIsHere) {
  Screen screen;
  screen.feed(0, "par");
  screen.feed(1, "whole\n");
  EXPECT_EQ(screen.out, "[1] whole\n");
  screen.feed(0, "tial\n");
  EXPECT_EQ(screen.out, "[1] whole\n[0] partial\n");
}

TEST(OutputPrinter, ShowsALineWithoutEndAfterAMoment) {
  Screen screen;
  screen.feed(0, "password: ");
  EXPECT_EQ(screen.out, "");
  EXPECT_EQ(screen.printer.due(), screen.now + OutputPrinter::kPartialDelay);
  screen.wait();
  EXPECT_EQ(screen.out, "[0] password: ");
  EXPECT_EQ(screen.printer.due(), TimePoint::max());
  screen.feed(0, "thanks\n");
  EXPECT_EQ(screen.out, "[0] password: thanks\n");
}

TEST(OutputPrinter, NeverPutsALineIntoTheMiddleOfAnother) {
  Screen screen;
  screen.feed(0, "slow");
  screen.wait();
  screen.feed(1, "x\n");
  screen.feed(0, "er\n");
  EXPECT_EQ(screen.out, "[0] slow\n[1] x\n[0] er\n");
}

TEST(OutputPrinter, DoesNotEndALineTwice) {
  Screen screen;
  screen.feed(0, "slow");
  screen.wait();
  screen.feed(1, "x\n");
  screen.feed(0, "\n");
  screen.feed(0, "next\n");
  EXPECT_EQ(screen.out, "[0] slow\n[1] x\n[0] next\n");
}

TEST(OutputPrinter, KeepsEmptyLines) {
  Screen screen;
  screen.feed(2, "\n\na\n");
  EXPECT_EQ(screen.out, "[2] \n[2] \n[2] a\n");
}

TEST(OutputPrinter, LetsAProgressBarOverwriteItself) {
  Screen screen;
  screen.feed(0, "\r10%", kErr);
  screen.feed(0, "\r20%", kErr);
  EXPECT_EQ(screen.err, "[0] 10%") << "a newer state shows the older one";
  screen.wait();
  EXPECT_EQ(screen.err, "[0] 10%\r[0] 20%");
  screen.feed(0, "\r30%\n", kErr);
  EXPECT_EQ(screen.err, "[0] 10%\r[0] 20%\r[0] 30%\n");
}

TEST(OutputPrinter, ShowsABarThatEndsWithTheReturn) {
  Screen screen;
  screen.feed(0, "10%\r");
  screen.wait();
  screen.feed(0, "20%\r");
  screen.wait();
  EXPECT_EQ(screen.out, "[0] 10%\r[0] 20%");
}

TEST(OutputPrinter, MovesAnInterruptedBarToALineOfItsOwn) {
  Screen screen;
  screen.feed(0, "\r10%");
  screen.wait();
  screen.feed(1, "hello\n");
  screen.feed(0, "\r20%");
  screen.wait();
  EXPECT_EQ(screen.out, "[0] 10%\n[1] hello\n[0] 20%");
}

TEST(OutputPrinter, TakesReturnNewlineAsOneLineEndEvenWhenSplit) {
  Screen screen;
  screen.feed(0, "a\r\nb\r");
  screen.feed(0, "\nc\n");
  EXPECT_EQ(screen.out, "[0] a\n[0] b\n[0] c\n");
}

TEST(OutputPrinter, KnowsThatBothStreamsShareATerminal) {
  Screen apart(false);
  apart.feed(0, "\r10%", kErr);
  apart.wait();
  apart.feed(1, "x\n");
  EXPECT_EQ(apart.err, "[0] 10%");
  Screen shared(true);
  shared.feed(0, "\r10%", kErr);
  shared.wait();
  shared.feed(1, "x\n");
  EXPECT_EQ(shared.both, "[0] 10%\n[1] x\n");
  EXPECT_EQ(shared.err, "[0] 10%\n") << "a line is ended on the stream it stands on";
}

TEST(OutputPrinter, EndsTheLastLineWhenAllIsOver) {
  Screen screen;
  screen.feed(0, "shown");
  screen.wait();
  screen.feed(1, "not yet");
  screen.finish();
  EXPECT_EQ(screen.out, "[0] shown\n[1] not yet\n");
}

TEST(OutputPrinter, DoesNotHoldBackAnEndlessLineForEver) {
  Screen screen;
  screen.feed(0, std::string(1 << 17, 'x'));
  EXPECT_GT(screen.out.size(), std::size_t{1 << 16});
}

TEST(OutputPrinter, KeepsTheLastLinesOfEachRank) {
  Screen screen;
  for (int i = 0; i < 25; ++i)
    screen.feed(1, "line " + std::to_string(i) + "\n", i % 2 ? kErr : kOut);
  screen.feed(2, "other\n");
  const auto lines = screen.printer.last_lines(1);
  ASSERT_EQ(lines.size(), OutputPrinter::kLastLines);
  EXPECT_EQ(lines.front(), "line 15");
  EXPECT_EQ(lines.back(), "line 24");
  EXPECT_THAT(screen.printer.last_lines(2), ElementsAre("other"));
  EXPECT_THAT(screen.printer.last_lines(7), IsEmpty());
}

TEST(OutputPrinter, KeepsOnlyTheLastStateOfABarAndUnfinishedLines) {
  Screen screen;
  screen.feed(0, "\r10%\r20%\r30%\nlast");
  screen.wait();
  screen.feed(0, " line");
  screen.finish();
  EXPECT_THAT(screen.printer.last_lines(0), ElementsAre("30%", "last line"));
}

TEST(OutputPrinter, NamesMpirun) {
  Screen screen;
  screen.feed(OutputPrinter::kLauncher, "no such host\n", kErr);
  EXPECT_EQ(screen.err, "[launcher] no such host\n");
}

TEST(OutputPrinter, ShowsTheSameHoweverTheBytesAreCut) {
  const std::string text = "one\ntwo\r\nthree\rfour\n\nfive\n";
  Screen whole;
  whole.feed(0, text);
  whole.finish();
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Screen screen;
    screen.feed(0, text.substr(0, cut));
    screen.feed(0, text.substr(cut));
    screen.finish();
    EXPECT_EQ(screen.out, whole.out) << "cut at " << cut;
  }
}

TEST(OutputPrinter, ShowsLinesOfSeveralRanksAsOne) {
  Screen screen(true);
  screen.feed(3, "half");
  screen.wait();
  const std::vector<int> ranks = {0, 1, 3, 4, 5, 7};
  screen.printer.feed_shared(ranks, kErr, "a\nb\n");
  screen.feed(3, " a line\n");
  EXPECT_EQ(screen.both, "[3] half\n[0,1,3-5,7] a\n[0,1,3-5,7] b\n[3]  a line\n");
  EXPECT_THAT(screen.printer.last_lines(7), ElementsAre("a", "b"));
  EXPECT_THAT(screen.printer.last_lines(3), ElementsAre("a", "b", "half a line"));
}

TEST(OutputPrinter, KnowsWhoseLastLinesCanStillBeSeen) {
  Screen screen(true);
  screen.feed(0, "first\n");
  EXPECT_TRUE(screen.printer.on_screen(0));
  EXPECT_FALSE(screen.printer.on_screen(1)) << "it has written nothing";
  screen.printer.feed_shared(std::vector<int>{1, 2}, kErr, "second\n");
  for (std::size_t i = 2; i < OutputPrinter::kOnScreen; ++i) screen.feed(3, "x\n");
  EXPECT_TRUE(screen.printer.on_screen(0));
  screen.feed(3, "x\n");
  EXPECT_FALSE(screen.printer.on_screen(0));
  EXPECT_TRUE(screen.printer.on_screen(1));
  EXPECT_TRUE(screen.printer.on_screen(2));
}

TEST(OutputPrinter, KnowsThatStandardOutputMayBeElsewhere) {
  Screen screen(false);
  screen.feed(0, "to a file\n", kOut);
  screen.feed(0, "to the screen\n", kErr);
  screen.feed(1, "to the screen\n", kErr);
  EXPECT_FALSE(screen.printer.on_screen(0));
  EXPECT_TRUE(screen.printer.on_screen(1));
}

}  // namespace
}  // namespace hvd::runner
