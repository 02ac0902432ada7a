#include "core/observe/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "test/core/observe/observed_batches.h"
#include "test/core/observe/trace_check.h"
#include "test/support/attempts.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd::engine {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::batch_of;
using test::check_trace;
using test::spans_of;
using test::submission_of;
using testing::HasSubstr;

class TimelineTest : public testing::Test {
 protected:
  std::string path() const { return folder_.file("trace.json"); }
  json read() const { return json::parse(folder_.read("trace.json")); }

  TemporaryFolder folder_;
};

// The events of a job that runs or was killed: one per line, the last line may be incomplete.
json read_unfinished(const std::string& path) {
  std::ifstream in(path);
  json events = json::array();
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "[");
  while (std::getline(in, line)) {
    if (line.ends_with(',')) line.pop_back();
    const json event = json::parse(line, nullptr, false);
    if (event.is_discarded()) {
      EXPECT_TRUE(in.eof()) << "not the last line: " << line;
      break;
    }
    events.push_back(event);
  }
  return events;
}

// A batch that lives now.
void live(Timeline& timeline, const std::vector<std::string>& names, std::uint64_t number) {
  BatchInfo batch = batch_of({}, number);
  const TimePoint now = Clock::now();
  for (const std::string& name : names) {
    timeline.submitted(submission_of(1, name, now));
    batch.members.push_back({1, name, 48, false, now});
  }
  batch.negotiated = batch.started = Clock::now();
  batch.finished = Clock::now();
  timeline.finished(batch);
}

// What rank `from` has recorded reaches rank 0.
void send(Timeline& from, Rank rank, Timeline& root, const ClockEstimate& clock = {}) {
  Bytes bytes;
  from.collect(bytes);
  if (!bytes.empty()) root.receive({rank, clock, bytes});
}

int count(const json& trace, const std::string& name) {
  int found = 0;
  for (const json& event : trace) found += event["name"] == name ? 1 : 0;
  return found;
}

TEST_F(TimelineTest, OneFileHasTheEventsOfAllRanks) {
  Timeline zero(0);
  Timeline one(1);
  zero.start(path());
  EXPECT_TRUE(zero.wants_observed());
  one.observed(true);
  live(zero, {"a", "b"}, 1);
  live(one, {"a", "b"}, 1);
  send(one, 1, zero);
  one.observed(false);
  send(one, 1, zero);
  zero.stop();
  EXPECT_FALSE(zero.wants_observed());
  const json trace = read();
  check_trace(trace);
  for (const Rank rank : {0, 1}) {
    for (const char* const name : {"a", "b"}) {
      EXPECT_EQ(spans_of(trace, rank, name),
                (std::vector<std::string>{"NEGOTIATE_ALLREDUCE", "QUEUE", "ALLREDUCE"}));
    }
  }
  EXPECT_EQ(count(trace, "TIMELINE_START"), 1);
}

TEST_F(TimelineTest, IsStartedAndStoppedAtRunTime) {
  Timeline timeline(0);
  live(timeline, {"before"}, 1);
  timeline.stop();  // nothing to stop
  for (int round = 0; round < 3; ++round) {
    timeline.start(path());
    EXPECT_THROW(timeline.start(path()), InvalidArgumentError);
    live(timeline, {"during"}, 2);
    timeline.stop();
    live(timeline, {"after"}, 3);
    const json trace = read();
    EXPECT_EQ(spans_of(trace, 0, "during").size(), 3u);
    EXPECT_TRUE(spans_of(trace, 0, "before").empty());
    EXPECT_TRUE(spans_of(trace, 0, "after").empty());
  }
}

TEST_F(TimelineTest, RanksThatNobodyAskedRecordNothing) {
  Timeline one(1);
  one.start("/nonexistent/folder/trace.json");  // rank 0's path counts
  live(one, {"a"}, 1);
  Bytes bytes;
  one.collect(bytes);
  EXPECT_TRUE(bytes.empty());
  one.stop();
}

TEST_F(TimelineTest, StoppingWaitsForWhatIsOnItsWay) {
  const auto stops_in_time = [this] {
    Timeline zero(0);
    Timeline one(1);
    zero.start(path());
    one.observed(true);
    live(one, {"first"}, 1);
    send(one, 1, zero);
    std::thread other([&] {
      while (zero.wants_observed()) std::this_thread::yield();
      live(one, {"last"}, 2);
      one.observed(false);
      send(one, 1, zero);
    });
    const TimePoint start = Clock::now();
    zero.stop();
    const bool in_time = Clock::now() - start < milliseconds(900);  // it gives up after a second
    other.join();
    if (!in_time) return false;
    EXPECT_EQ(spans_of(read(), 1, "last").size(), 3u);
    return true;
  };
  EXPECT_TRUE(test::first_good(stops_in_time, std::identity()));
}

TEST_F(TimelineTest, MalformedBlocksAreRefused) {
  Timeline zero(0);
  Timeline one(1);
  one.observed(true);
  live(one, {"a", "b"}, 1);
  one.failed(1, "b", {StatusCode::kMismatch, "no"}, Clock::now());
  Bytes good;
  one.collect(good);
  for (std::size_t length = 0; length < good.size(); ++length) {
    TimelineTracks::Records records;
    TimelineTracks tracks(1, Clock::now(), false, records);
    try {
      tracks.add(std::span(good).first(length));
    } catch (const PeerLostError&) {
    }
  }
  zero.start(path());
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    Bytes altered = good;
    altered[random() % altered.size()] = static_cast<std::byte>(random());
    zero.receive({1, std::nullopt, altered});
  }
  live(zero, {"own"}, 1);
  one.observed(false);
  Bytes last;
  one.collect(last);
  last.push_back(std::byte{0xff});
  zero.receive({1, std::nullopt, last});
  const TimePoint start = Clock::now();
  zero.stop();
  EXPECT_LT(Clock::now() - start, kTimelineLimit) << "it waited for what rank 1 has said";
  EXPECT_EQ(spans_of(read(), 0, "own").size(), 3u);
}

TEST_F(TimelineTest, WhatDoesNotFitIsCounted) {
  Timeline timeline(0, {.queue_limit = 6, .flush_interval = hours(1)});
  timeline.start(path());
  live(timeline, {"a"}, 1);       // 2 events
  live(timeline, {"b", "c"}, 2);  // 4 more
  live(timeline, {"d", "e"}, 3);  // 4 that find no room
  timeline.stop();
  const json trace = read();
  EXPECT_EQ(spans_of(trace, 0, "c").size(), 3u);
  EXPECT_EQ(spans_of(trace, 0, "d").size(), 0u);
  for (const json& event : trace) {
    if (event["name"] != "DROPPED") continue;
    EXPECT_EQ(event["args"]["events"], 4);
  }
  EXPECT_EQ(count(trace, "DROPPED"), 1);
}

TEST_F(TimelineTest, AFullFileSaysSoAndStops) {
  Timeline timeline(0, {.max_bytes = 20'000, .flush_interval = microseconds(100)});
  timeline.start(path());
  const TimePoint limit = Clock::now() + seconds(20);
  for (std::uint64_t number = 0; timeline.wants_observed() && Clock::now() < limit; ++number) {
    live(timeline, {"a"}, number);
  }
  EXPECT_FALSE(timeline.wants_observed());
  timeline.stop();
  EXPECT_LE(std::filesystem::file_size(path()), 20'000u);
  const json trace = read();
  check_trace(trace);
  EXPECT_EQ(trace.back()["name"], "TIMELINE_FULL");
  EXPECT_EQ(trace.back()["args"]["limit_bytes"], 20'000);
}

TEST_F(TimelineTest, AddsToTheFileWhileItRuns) {
  Timeline timeline(0, {.flush_interval = milliseconds(1)});
  timeline.start(path());
  live(timeline, {"a"}, 1);
  const TimePoint deadline = Clock::now() + seconds(20);
  const auto seen = [&] { return spans_of(read_unfinished(path()), 0, "a").size() == 3; };
  while (!seen() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_LT(Clock::now(), deadline);
}

// Rank 0 of two, both in this process.
[[noreturn]] void record_forever(const std::string& path) {
  Timeline zero(0, {.flush_interval = microseconds(100)});
  Timeline one(1);
  zero.start(path);
  one.observed(true);
  for (std::uint64_t step = 0;; ++step) {
    live(zero, {"first", "second", "third \"3\""}, step);
    live(one, {"first", "second", "third \"3\""}, step);
    send(one, 1, zero, {microseconds(3), microseconds(1)});
    std::this_thread::sleep_for(microseconds(50));
  }
}

TEST_F(TimelineTest, CanBeReadWheneverTheProcessIsKilled) {
  std::mt19937 random(std::random_device{}());
  std::size_t records = 0;
  for (int round = 0; round < 50; ++round) {
    const pid_t child = fork();
    if (child == 0) record_forever(path());
    const std::size_t least = round == 0 ? 300'000 : 10;  // bytes
    while (!std::filesystem::exists(path()) || std::filesystem::file_size(path()) < least) {
      std::this_thread::sleep_for(microseconds(100));
    }
    std::this_thread::sleep_for(microseconds(random() % 60'000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const json trace = read_unfinished(path());
    ASSERT_FALSE(HasFailure()) << "round " << round;
    records += trace.size();
    check_trace(trace);
    std::filesystem::remove(path());
  }
  EXPECT_GT(records, 1000u);
}

TEST_F(TimelineTest, APathThatCannotBeWrittenIsNamed) {
  for (const std::string bad : {"/nonexistent/folder/trace.json", "/dev/full", "/proc", ""}) {
    Timeline timeline(0);
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { timeline.start(bad); }),
                testing::HasSubstr("'" + bad + "'"));
    timeline.start(path());  // a failed start leaves nothing behind
  }
}

// As on a full disk.
TEST_F(TimelineTest, CanBeReadWhenTheSystemTakesNoMore) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr rlimit kSize{10'001, 10'001};  // bytes per file
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &kSize);
    Timeline timeline(0, {.flush_interval = microseconds(100)});
    timeline.start(path());
    for (std::uint64_t step = 0; timeline.wants_observed(); ++step) live(timeline, {"a"}, step);
    timeline.stop();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::filesystem::file_size(path()), 10'001u);
  const json trace = read_unfinished(path());
  EXPECT_GT(trace.size(), 10u);
  check_trace(trace);
}

TEST_F(TimelineTest, ALinkOfAnotherUserIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make a link of another user";
  const TemporaryFolder folder;
  const std::string precious = folder.write("precious", "precious");
  std::filesystem::create_symlink(precious, folder.file("trace.json"));
  ASSERT_EQ(lchown(folder.file("trace.json").c_str(), 1, 1), 0);
  Timeline timeline(0);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { timeline.start(folder.file("trace.json")); }),
              HasSubstr("trace.json': its symbolic link is not followed"));
  EXPECT_EQ(folder.read("precious"), "precious");
}

// Whoever reads it could hold up the end of the job.
TEST_F(TimelineTest, APipeIsRefused) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  Timeline timeline(0);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { timeline.start(path()); }),
              HasSubstr("trace.json': it is not a regular file"));
}

TEST_F(TimelineTest, ALinkStaysAndItsTargetIsReplaced) {
  std::filesystem::create_symlink("real.json", path());
  {
    Timeline timeline(0);
    timeline.start(path());
  }
  EXPECT_TRUE(std::filesystem::is_symlink(path()));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_.file("real.json")));
}

TEST_F(TimelineTest, OverwritesALongerFile) {
  {
    std::ofstream old(path());
    old << std::string(100'000, 'x');
  }
  {
    Timeline timeline(0);
    timeline.start(path());
  }
  EXPECT_EQ(read().size(), 3u);
}

}  // namespace
}  // namespace hvd::engine
