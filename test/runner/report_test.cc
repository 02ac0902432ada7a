#include "runner/output/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

namespace hvd::runner {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// `time` in milliseconds.
RankEnd ended(int rank, EndKind kind, int value, int time, bool was_stopped = false) {
  const TimePoint at(std::chrono::milliseconds{time});
  return {rank, "node1", at, {.kind = kind, .value = value, .was_stopped = was_stopped}};
}

// Its job had ended because of another rank.
RankEnd after_loss(RankEnd end) {
  end.end.after_loss = true;
  return end;
}

const std::deque<std::string> kNothing;

TEST(FirstFailure, GoesByTimeAndNotByArrival) {
  const std::vector<RankEnd> ends = {ended(3, EndKind::kExited, 1, 20),
                                     ended(1, EndKind::kSignaled, SIGKILL, 10),
                                     ended(0, EndKind::kExited, 0, 5)};
  ASSERT_NE(first_failure(ends), nullptr);
  EXPECT_EQ(first_failure(ends)->rank, 1);
}

TEST(FirstFailure, IsThatOfTheCauseHoweverSoonItsVictimsEnded) {
  const std::vector<RankEnd> ends = {after_loss(ended(0, EndKind::kExited, 1, 10)),
                                     ended(1, EndKind::kExited, 3, 20),
                                     ended(2, EndKind::kExited, 4, 30)};
  ASSERT_NE(first_failure(ends), nullptr);
  EXPECT_EQ(first_failure(ends)->rank, 1);
  EXPECT_EQ(exit_code(*first_failure(ends)), 3);
}

TEST(FirstFailure, IsTheFirstVictimsWhereTheCauseDidNotFail) {
  const std::vector<RankEnd> ends = {after_loss(ended(2, EndKind::kExited, 1, 30)),
                                     ended(1, EndKind::kExited, 0, 5),
                                     after_loss(ended(0, EndKind::kExited, 1, 20))};
  EXPECT_EQ(first_failure(ends)->rank, 0);
}

TEST(FirstFailure, IsNoneWhenAllSucceededOrWereStopped) {
  const std::vector<RankEnd> ends = {ended(0, EndKind::kExited, 0, 1),
                                     ended(1, EndKind::kSignaled, SIGTERM, 2, true),
                                     ended(2, EndKind::kExited, 143, 3, true)};
  EXPECT_EQ(first_failure(ends), nullptr);
  EXPECT_EQ(failure_report(ends, 3, "x", &kNothing), "");
}

TEST(FirstFailure, CountsAVanishedAgent) {
  const std::vector<RankEnd> ends = {ended(2, EndKind::kLost, 0, 5)};
  EXPECT_EQ(first_failure(ends)->rank, 2);
  EXPECT_EQ(exit_code(ends[0]), 1);
}

TEST(ExitCode, IsWhatAShellWouldSay) {
  EXPECT_EQ(exit_code(ended(0, EndKind::kExited, 3, 0)), 3);
  EXPECT_EQ(exit_code(ended(0, EndKind::kSignaled, SIGKILL, 0)), 137);
  EXPECT_EQ(exit_code(ended(0, EndKind::kNotStarted, ENOENT, 0)), 127);
  EXPECT_EQ(exit_code(ended(0, EndKind::kNotStarted, EACCES, 0)), 126);
}

TEST(DescribeEnd, HelpsWithAProgramThatDoesNotStart) {
  EXPECT_THAT(describe_end(ended(0, EndKind::kNotStarted, ENOENT, 0), "train"),
              HasSubstr("could not start 'train': No such file or directory; it is not in PATH (a "
                        "program in this folder is ./train)"));
  EXPECT_THAT(describe_end(ended(0, EndKind::kNotStarted, ENOENT, 0), "./train"),
              EndsWith("No such file or directory"));
  EXPECT_THAT(describe_end(ended(0, EndKind::kNotStarted, EACCES, 0), "./t.py"),
              HasSubstr("chmod +x"));
}

TEST(FailureReport, NamesTheFirstRankItsCodeItsLastLinesAndTheOthers) {
  const std::vector<RankEnd> ends = {ended(1, EndKind::kExited, 3, 10),
                                     ended(2, EndKind::kSignaled, SIGABRT, 11),
                                     ended(0, EndKind::kSignaled, SIGTERM, 12, true)};
  const std::deque<std::string> lines = {"Traceback", "ValueError: lr"};
  const std::string text = failure_report(ends, 3, "./x", &lines);
  EXPECT_THAT(text, StartsWith("hvdrun: rank 1 of 3 failed first, on host node1: exit code 3\n"));
  EXPECT_THAT(text, HasSubstr("after it: rank 2: killed by SIGABRT\n"));
  EXPECT_THAT(text, Not(HasSubstr("rank 0")));
  EXPECT_THAT(text, EndsWith("the last lines of rank 1:\n    Traceback\n    ValueError: lr\n"));
  EXPECT_THAT(failure_report(ends, 3, "./x", nullptr), EndsWith("killed by SIGABRT\n"))
      << "those that can still be seen";
}

TEST(FailureReport, NamesWhoLeftWithoutAFailureBefore) {
  const std::vector<RankEnd> ends = {
      after_loss(ended(0, EndKind::kExited, 1, 350)), ended(1, EndKind::kExited, 0, 200),
      ended(2, EndKind::kExited, 0, 100), ended(3, EndKind::kExited, 0, 400),
      ended(4, EndKind::kExited, 0, 90, true)};
  EXPECT_EQ(failure_report(ends, 5, "x", nullptr),
            "hvdrun: rank 0 of 5 failed first, on host node1: exit code 1\n"
            "hvdrun: ranks 1 and 2 had ended 0.1 s before with exit code 0\n"
            "hvdrun: rank 3 ended after it with exit code 0\n");
}

TEST(FailureReport, SaysThatAnotherRankHadLeftWhereItsProcessEndedLater) {
  const std::vector<RankEnd> ends = {after_loss(ended(0, EndKind::kExited, 1, 350)),
                                     ended(1, EndKind::kExited, 0, 400)};
  EXPECT_EQ(failure_report(ends, 2, "x", nullptr),
            "hvdrun: rank 0 of 2 failed first, on host node1: exit code 1\n"
            "hvdrun: it failed because another rank had left the job; rank 1 ended with exit code "
            "0\n");
}

TEST(FailureReport, SaysOnceWhereRanksLeftTheirLastOperations) {
  std::vector<RankEnd> ends = {after_loss(ended(2, EndKind::kExited, 1, 30)),
                               ended(1, EndKind::kSignaled, SIGKILL, 5),
                               after_loss(ended(0, EndKind::kExited, 1, 20))};
  ends[0].end.recording = ends[2].end.recording = "/tmp/job";
  EXPECT_THAT(failure_report(ends, 3, "x", nullptr),
              EndsWith("hvdrun: the last operations of ranks 0 and 2 are in /tmp/job\n"));
  ends[0].host = "node2";
  EXPECT_THAT(failure_report(ends, 3, "x", nullptr), EndsWith("in /tmp/job on their hosts\n"));
  ends[1].end = {.kind = EndKind::kExited, .value = 3};
  EXPECT_THAT(failure_report(ends, 3, "x", nullptr), Not(HasSubstr("/tmp/job")))
      << "a mistake of the program's own";
}

TEST(FailureReport, SaysWhenNothingWasPrinted) {
  EXPECT_THAT(
      failure_report(std::vector<RankEnd>{ended(1, EndKind::kExited, 3, 10)}, 2, "x", &kNothing),
      EndsWith("rank 1 printed nothing\n"));
}

TEST(SignalName, KnowsNamesAndNumbers) {
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(999), "signal 999");
}

}  // namespace
}  // namespace hvd::runner
