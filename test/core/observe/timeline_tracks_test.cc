#include "core/observe/timeline_tracks.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/core/observe/observed_batches.h"
#include "test/core/observe/trace_check.h"

namespace hvd::engine {
namespace {

using nlohmann::json;
using std::chrono::microseconds;
using std::chrono::seconds;
using test::at_us;
using test::batch_of;
using test::check_trace;
using test::spans_of;
using test::submission_of;
using test::track_of;

const Status kNo(StatusCode::kMismatch, "\"two\" shapes");

class Tracks : public testing::Test {
 protected:
  Tracks() { recorder.record(true); }

  // What was recorded, as a trace.
  json trace() {
    const Bytes block = recorder.take();
    if (!block.empty()) tracks.add(block);
    std::string text = "[";
    for (const std::string& record : records) text += (text.size() == 1 ? "" : ",") + record;
    const json trace = json::parse(text + "]");
    check_trace(trace);
    return trace;
  }
  void live(const std::string& name, std::int64_t at, bool automatic = false) {
    SubmissionInfo submission = submission_of(1, name, at_us(at + 2));
    submission.automatic_name = automatic;
    recorder.submitted(submission);
    recorder.finished(batch_of({{1, name, 96, automatic, at_us(at + 2)}}, 7, at));
  }

  TimelineRecorder recorder{1000};
  TimelineTracks::Records records;
  TimelineTracks tracks{3, at_us(0), false, records};
};

TEST_F(Tracks, ShowThePhasesOfATensorWithTheirTimes) {
  live("a", 0);
  const auto events = track_of(trace(), 3, "a");
  ASSERT_EQ(events.size(), 6u);
  const auto expect = [&](std::size_t i, const char* name, const char* type, double at) {
    EXPECT_EQ(events[i]["name"], name);
    EXPECT_EQ(events[i]["ph"], type);
    EXPECT_EQ(events[i]["ts"], at);
  };
  expect(0, "NEGOTIATE_ALLREDUCE", "B", 2);
  expect(1, "NEGOTIATE_ALLREDUCE", "E", 10);
  expect(2, "QUEUE", "X", 10);
  expect(3, "ALLREDUCE", "X", 15);
  expect(4, "PACK", "X", 15);
  expect(5, "UNPACK", "X", 36);
  EXPECT_EQ(events[2]["dur"], 5);
  EXPECT_EQ(events[3]["dur"], 25);
  EXPECT_EQ(events[4]["dur"], 3);
  EXPECT_EQ(events[5]["dur"], 4);
  EXPECT_EQ(events[3]["args"], json::parse(R"({"batch":7,"tensors":1,"bytes":96,"packed_bytes":48,
                            "dtype":"float16","process_set":0})"));
}

TEST_F(Tracks, NameEveryKind) {
  for (const auto& [kind, name] : {std::pair(CollectiveKind::kAlltoall, "ALLTOALL"),
                                   std::pair(CollectiveKind::kReducescatter, "REDUCESCATTER"),
                                   std::pair(CollectiveKind::kAddSet, "ADD_PROCESS_SET")}) {
    BatchInfo batch = batch_of({{1, name, 96, false, at_us(0)}});
    batch.kind = kind;
    recorder.finished(batch);
    EXPECT_EQ(spans_of(trace(), 3, name), (std::vector<std::string>{"QUEUE", name}));
  }
}

TEST_F(Tracks, WhoWaitsIsInTheTraceAtOnce) {
  recorder.submitted(submission_of(1, "hangs", at_us(4)));
  EXPECT_EQ(spans_of(trace(), 3, "hangs"), (std::vector<std::string>{"NEGOTIATE_ALLREDUCE"}));
  tracks.close(at_us(9));
  const auto events = track_of(trace(), 3, "hangs");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1]["ts"], 9);
  EXPECT_EQ(events[1]["args"]["unfinished"], true);
}

// A result in the order of a stream gives its name back before the device is through.
TEST_F(Tracks, ANameThatIsSubmittedAgainKeepsItsNegotiationsApart) {
  recorder.submitted(submission_of(1, "w", at_us(2)));   // negotiated at 10, finished at 40
  recorder.submitted(submission_of(2, "w", at_us(20)));  // negotiated at 60
  recorder.submitted(submission_of(3, "w", at_us(22)));
  recorder.failed("w", kNo, at_us(24));
  recorder.finished(batch_of({{1, "w", 96, false, at_us(2)}}, 7));
  recorder.finished(batch_of({{2, "w", 96, false, at_us(20)}}, 8, 50));
  const auto events = track_of(trace(), 3, "w");
  std::vector<double> negotiations;
  for (const json& event : events) {
    if (event["name"] == "NEGOTIATE_ALLREDUCE") negotiations.push_back(event["ts"]);
  }
  EXPECT_EQ(negotiations, (std::vector<double>{2, 10, 40, 60}));
}

TEST_F(Tracks, ANegotiationWhoseEndWasDroppedIsUnfinished) {
  recorder.submitted(submission_of(1, "w", at_us(2)));
  live("w", 50);
  const auto events = track_of(trace(), 3, "w");
  ASSERT_EQ(events.size(), 2u + 6u);
  EXPECT_EQ(events[1]["args"]["unfinished"], true);
}

TEST_F(Tracks, FailuresSayWhy) {
  recorder.submitted(submission_of(1, "w", at_us(4)));
  recorder.failed("w", kNo, at_us(8));
  live("w", 20);
  const auto events = track_of(trace(), 3, "w");
  EXPECT_EQ(events[1]["name"], "FAILED");
  EXPECT_EQ(events[1]["args"]["error"], "\"two\" shapes");
  EXPECT_EQ(events[2]["ph"], "E");
  EXPECT_EQ(events.size(), 3u + 6u);
}

TEST_F(Tracks, ClocksOfOtherRanksAreSetRight) {
  tracks.set_clock({seconds(-2), microseconds(1)});
  BatchInfo batch = batch_of({{1, "a", 96, false, at_us(0)}}, 7, 2'000'000);
  recorder.finished(batch);
  const json all = trace();
  EXPECT_EQ(track_of(all, 3, "a")[0]["ts"], 10);
  EXPECT_EQ(all[2]["name"], "CLOCK_OFFSET");  // behind the names
  EXPECT_EQ(all[2]["args"], json::parse(R"({"offset_us":-2000000.0,"error_us":1.0})"));
  tracks.set_clock({seconds(-2) + microseconds(1), microseconds(1)});
  EXPECT_EQ(trace().size(), all.size());  // no news
}

TEST_F(Tracks, AClockThatMovesMakesNoSpansOverlap) {
  tracks.set_clock({microseconds(30), microseconds(1)});
  live("a", 0);
  trace();
  tracks.set_clock({microseconds(-30), microseconds(1)});
  live("a", 41);
  EXPECT_EQ(spans_of(trace(), 3, "a").size(), 6u);
  tracks.set_clock({seconds(-9), microseconds(1)});
  live("new", 0);  // before the trace began
  trace();
}

TEST_F(Tracks, AutomaticNamesTakeTurns) {
  for (int i = 0; i < 100; ++i) live("allreduce.noname." + std::to_string(i), 100 * i, true);
  EXPECT_EQ(spans_of(trace(), 3, "unnamed 1").size(), 300u);
  for (const char* const name : {"x", "y"}) {
    SubmissionInfo submission = submission_of(1, name, at_us(20'000));
    submission.automatic_name = true;
    recorder.submitted(submission);
  }
  recorder.failed("x", kNo, at_us(20'001));
  const json all = trace();
  EXPECT_EQ(track_of(all, 3, "unnamed 2").size(), 1u);
  EXPECT_EQ(track_of(all, 3, "unnamed 1").back()["ph"], "E");
}

TEST_F(Tracks, MarkBatchesWhenAsked) {
  TimelineTracks marking(0, at_us(0), true, records);
  recorder.finished(batch_of({{1, "a", 96, false, at_us(0)}}, 5));
  records.clear();
  marking.add(recorder.take());
  const json mark = json::parse(records[0]);
  EXPECT_EQ(mark["name"], "CYCLE_START");
  EXPECT_EQ(mark["ts"], 10);
  EXPECT_EQ(mark["args"]["batch"], 5);
}

TEST_F(Tracks, NamesOfAnyBytesStayValidJson) {
  const std::string odd = "layer\"1\"\\weight\n\t\x01 \xc3\xa9";
  live(odd, 0);
  live("\xff\xfe", 0);
  EXPECT_EQ(spans_of(trace(), 3, odd).size(), 3u);
  EXPECT_EQ(spans_of(trace(), 3, "\xef\xbf\xbd\xef\xbf\xbd").size(), 3u);
}

}  // namespace
}  // namespace hvd::engine
