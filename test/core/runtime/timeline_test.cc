#include "core/runtime/timeline.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/status.h"

namespace hvd {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

class TimelineTest : public testing::Test {
 protected:
  TimelineTest() {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("hvd_timeline_") + test->name() + "_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~TimelineTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return (folder_ / "trace.json").string(); }
  json read() const {
    std::ifstream in(path());
    return json::parse(in);
  }

 private:
  std::filesystem::path folder_;
};

BatchInfo batch_of(std::vector<std::string_view> names, std::uint64_t number = 0,
                   CollectiveKind kind = CollectiveKind::kAllreduce) {
  return {.number = number, .kind = kind, .dtype = DType::kF16, .bytes = 96, .names = names};
}

void live(Timeline& timeline, const BatchInfo& batch) {
  for (const std::string_view name : batch.names) timeline.submitted(name);
  timeline.negotiated(batch);
  timeline.started(batch);
  timeline.finished(batch);
}

// The events of one tensor's track: those with the number that its name stands for.
std::vector<json> track(const json& trace, const std::string& name) {
  int number = -1;
  for (const json& event : trace) {
    if (event["name"] == "thread_name" && event["args"]["name"] == name) number = event["tid"];
  }
  std::vector<json> events;
  for (const json& event : trace) {
    if (event["tid"] == number && event["ph"] != "M") events.push_back(event);
  }
  return events;
}

std::vector<std::string> names(const std::vector<json>& events) {
  std::vector<std::string> all;
  for (const json& event : events) all.push_back(event["name"]);
  return all;
}

std::int64_t nanoseconds_of(const json& microseconds_value) {
  return std::llround(microseconds_value.get<double>() * 1000);
}

// On one track a span must not begin before the one before it has ended.
void expect_one_after_the_other(const std::vector<json>& events) {
  std::int64_t end = 0;
  for (const json& event : events) {
    if (event["ph"] != "X") continue;
    EXPECT_GE(nanoseconds_of(event["ts"]), end) << event;
    EXPECT_GE(nanoseconds_of(event["dur"]), 0) << event;
    end = nanoseconds_of(event["ts"]) + nanoseconds_of(event["dur"]);
  }
}

TEST_F(TimelineTest, ShowsThePhasesOfEachTensorOneAfterTheOther) {
  {
    Timeline timeline(path());
    for (std::uint64_t step = 0; step < 3; ++step) {
      live(timeline, batch_of({"a", "b"}, step));
      live(timeline, batch_of({"b"}, step + 10, CollectiveKind::kBroadcast));
    }
    live(timeline, batch_of({"c"}, 99, CollectiveKind::kAllgather));
  }
  const json trace = read();
  ASSERT_TRUE(trace.is_array());
  const std::vector<std::string> round = {"NEGOTIATE_ALLREDUCE", "QUEUE", "ALLREDUCE"};
  const auto a = track(trace, "a");
  ASSERT_EQ(a.size(), 9u);
  EXPECT_EQ(names({a.begin(), a.begin() + 3}), round);
  EXPECT_EQ(a[5]["args"]["batch"], 1);
  EXPECT_EQ(a[5]["args"]["tensors"], 2);
  EXPECT_EQ(a[5]["args"]["bytes"], 96);
  EXPECT_EQ(a[5]["args"]["dtype"], "float16");
  const auto b = track(trace, "b");
  ASSERT_EQ(b.size(), 18u);
  EXPECT_EQ(names({b.begin() + 3, b.begin() + 6}),
            (std::vector<std::string>{"NEGOTIATE_BROADCAST", "QUEUE", "BROADCAST"}));
  EXPECT_EQ(names(track(trace, "c")),
            (std::vector<std::string>{"NEGOTIATE_ALLGATHER", "QUEUE", "ALLGATHER"}));
  for (const char* const name : {"a", "b", "c"}) expect_one_after_the_other(track(trace, name));
}

TEST_F(TimelineTest, SpansLastAsLongAsTheirPhases) {
  {
    Timeline timeline(path());
    timeline.submitted("a");
    std::this_thread::sleep_for(milliseconds(20));
    timeline.negotiated(batch_of({"a"}));
    timeline.started(batch_of({"a"}));
    std::this_thread::sleep_for(milliseconds(10));
    timeline.finished(batch_of({"a"}));
  }
  const auto a = track(read(), "a");
  ASSERT_EQ(a.size(), 3u);
  EXPECT_GE(a[0]["dur"].get<double>(), 20'000);
  EXPECT_GE(a[2]["dur"].get<double>(), 10'000);
  EXPECT_GE(a[2]["ts"].get<double>(), 20'000);
}

TEST_F(TimelineTest, NamesOfAnyBytesStayValidJson) {
  const std::string odd = "layer\"1\"\\weight\n\t\x01 \xc3\xa9";
  {
    Timeline timeline(path());
    live(timeline, batch_of({odd}));
    live(timeline, batch_of({"\xff\xfe"}));
  }
  const json trace = read();
  EXPECT_EQ(track(trace, odd).size(), 3u);
  EXPECT_EQ(track(trace, "\xef\xbf\xbd\xef\xbf\xbd").size(), 3u);
}

TEST_F(TimelineTest, CarriesTheRankAsItsProcess) {
  { Timeline timeline(path(), {.rank = 3}); }
  const json trace = read();
  ASSERT_EQ(trace.size(), 1u);
  EXPECT_EQ(trace[0]["name"], "process_name");
  EXPECT_EQ(trace[0]["pid"], 3);
  EXPECT_EQ(trace[0]["args"]["name"], "rank 3");
}

TEST_F(TimelineTest, AFailureEndsThePhaseAndSaysWhy) {
  {
    Timeline timeline(path());
    timeline.submitted("a");
    timeline.failed("a", Status(StatusCode::kMismatch, "a: \"dtype\" differs"));
    live(timeline, batch_of({"a"}));
  }
  const auto a = track(read(), "a");
  EXPECT_EQ(names(a), (std::vector<std::string>{"FAILED", "NEGOTIATE", "NEGOTIATE_ALLREDUCE",
                                                "QUEUE", "ALLREDUCE"}));
  EXPECT_EQ(a[0]["ph"], "i");
  EXPECT_EQ(a[1]["args"]["error"], "a: \"dtype\" differs");
  expect_one_after_the_other(a);
}

TEST_F(TimelineTest, WhatHasNotEndedIsMarkedWhenTheTimelineEnds) {
  {
    Timeline timeline(path());
    timeline.submitted("waiting");
    timeline.submitted("running");
    timeline.negotiated(batch_of({"running"}));
    timeline.started(batch_of({"running"}));
  }
  const json trace = read();
  EXPECT_EQ(names(track(trace, "waiting")), std::vector<std::string>{"NEGOTIATE"});
  EXPECT_EQ(track(trace, "waiting")[0]["args"]["unfinished"], true);
  EXPECT_EQ(track(trace, "running").back()["name"], "ALLREDUCE");
  EXPECT_EQ(track(trace, "running").back()["args"]["unfinished"], true);
}

TEST_F(TimelineTest, AFullQueueDropsAndCountsInsteadOfWaiting) {
  {
    Timeline timeline(path(), {.queue_limit = 4, .flush_interval = hours(1)});
    std::this_thread::sleep_for(milliseconds(50));  // the writer looked once and sleeps
    live(timeline, batch_of({"a"}));                // 4 events
    live(timeline, batch_of({"b", "c"}));           // 8 more
  }
  const json trace = read();
  EXPECT_EQ(track(trace, "a").size(), 3u);
  EXPECT_EQ(track(trace, "b").size(), 0u);
  EXPECT_EQ(trace.back()["name"], "DROPPED");
  EXPECT_EQ(trace.back()["args"]["events"], 8);
}

TEST_F(TimelineTest, AddsToTheFileWhileItRuns) {
  Timeline timeline(path(), {.flush_interval = milliseconds(1)});
  live(timeline, batch_of({"a"}));
  const TimePoint deadline = Clock::now() + std::chrono::seconds(20);
  const auto size = [&] { return std::filesystem::file_size(path()); };
  while (size() < 300 && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(track(read(), "a").size(), 3u);  // nothing else is queued: the file rests
}

[[noreturn]] void record_until_killed(const std::string& path, microseconds life) {
  Timeline timeline(path, {.flush_interval = microseconds(100)});
  const TimePoint end = Clock::now() + life;
  for (std::uint64_t step = 0; Clock::now() < end; ++step) {
    live(timeline, batch_of({"first", "second", "third"}, step));
    std::this_thread::sleep_for(microseconds(100));
  }
  kill(getpid(), SIGKILL);
  std::abort();
}

TEST_F(TimelineTest, IsValidWheneverTheProcessIsKilled) {
  GTEST_FLAG_SET(death_test_style, "fast");
  std::size_t records = 0;
  for (int round = 1; round <= 10; ++round) {
    ASSERT_EXIT(record_until_killed(path(), microseconds(4'700 * round)),
                testing::KilledBySignal(SIGKILL), "");
    json trace;
    ASSERT_NO_THROW(trace = read()) << "round " << round;
    records += trace.size();
    for (const char* const name : {"first", "second", "third"}) {
      expect_one_after_the_other(track(trace, name));
    }
  }
  EXPECT_GT(records, 10u);
}

TEST_F(TimelineTest, APathThatCannotBeWrittenIsNamed) {
  for (const std::string bad : {"/nonexistent/folder/trace.json", "/dev/full", "/proc", ""}) {
    try {
      Timeline timeline(bad);
      FAIL() << "opened '" << bad << "'";
    } catch (const InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + bad + "'"), std::string::npos) << error.what();
    }
  }
}

TEST_F(TimelineTest, OverwritesALongerFile) {
  {
    std::ofstream old(path());
    old << std::string(100'000, 'x');
  }
  { Timeline timeline(path()); }
  EXPECT_EQ(read().size(), 1u);
}

}  // namespace
}  // namespace hvd
