#include "core/observe/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/status.h"
#include "test/core/observe/observed_batches.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd::engine {
namespace {

using nlohmann::json;
using test::at_us;
using test::batch_of;
using test::submission_of;
using testing::HasSubstr;

const Status kGone(StatusCode::kTransport, "rank 1 is \"gone\"");

std::vector<std::string> names(const json& dump) {
  std::vector<std::string> all;
  for (const json& operation : dump["operations"]) all.push_back(operation["name"]);
  return all;
}

TEST(FlightRecorder, TellsHowFarEachOperationCame) {
  FlightRecorder recorder(2, 4, {});
  const char* const all[] = {"waits", "queued", "runs", "done", "refused"};
  std::uint64_t ticket = 0;
  for (const char* const name : all) {
    recorder.submitted(submission_of(++ticket, name, Clock::now()));
  }
  recorder.negotiated(batch_of({{2, "queued", 96, false, {}}}, 7));
  recorder.negotiated(batch_of({{3, "runs", 96, false, {}}, {4, "done", 96, false, {}}}, 8));
  recorder.started(batch_of({{3, "runs", 96, false, {}}, {4, "done", 96, false, {}}}, 8));
  recorder.finished(batch_of({{4, "done", 96, false, {}}}, 8));
  recorder.failed(5, "refused", {StatusCode::kMismatch, "two shapes"}, Clock::now());
  const json dump = json::parse(recorder.to_json());
  EXPECT_EQ(dump["rank"], 2);
  EXPECT_EQ(dump["size"], 4);
  EXPECT_TRUE(dump["reason"].is_null());
  const char* const states[] = {"submitted", "negotiated", "started", "finished", "failed"};
  ASSERT_EQ(dump["operations"].size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    const json& operation = dump["operations"][i];
    EXPECT_EQ(operation["name"], all[i]);
    EXPECT_EQ(operation["state"], states[i]);
    EXPECT_EQ(operation["dtype"], "float16");
    EXPECT_EQ(operation["bytes"], 96);
    EXPECT_TRUE(operation["submitted"].is_number());
  }
  EXPECT_TRUE(dump["operations"][0]["negotiated"].is_null());
  EXPECT_TRUE(dump["operations"][0]["batch"].is_null());
  EXPECT_EQ(dump["operations"][1]["batch"], 7);
  EXPECT_TRUE(dump["operations"][2]["finished"].is_null());
  EXPECT_EQ(dump["operations"][4]["error"]["message"], "two shapes");
}

TEST(FlightRecorder, KeepsTheLatest) {
  FlightRecorder recorder(0, 1, {.operations = 3});
  for (std::uint64_t ticket = 1; ticket <= 10; ++ticket) {
    recorder.submitted(submission_of(ticket, std::to_string(ticket), at_us(0)));
  }
  recorder.failed(2, "2", kGone, at_us(1));  // forgotten: 2 % 3 is another's place now
  const json dump = json::parse(recorder.to_json());
  EXPECT_EQ(names(dump), (std::vector<std::string>{"8", "9", "10"}));
  for (const json& operation : dump["operations"]) EXPECT_EQ(operation["state"], "submitted");
}

TEST(FlightRecorder, MayKeepNothing) {
  FlightRecorder recorder(0, 1, {.operations = 0});
  recorder.submitted(submission_of(1, "x", at_us(0)));
  recorder.finished(batch_of({{1, "x", 96, false, {}}}));
  EXPECT_TRUE(json::parse(recorder.to_json())["operations"].empty());
}

TEST(FlightRecorder, ForgetsWhatCameBeforeTheProgram) {
  FlightRecorder recorder(0, 1, {});
  recorder.submitted(submission_of(1, "init", at_us(0)));
  recorder.begin("job", false);
  recorder.failed(1, "init", kGone, at_us(1));
  recorder.submitted(submission_of(2, "mine", at_us(2)));
  EXPECT_EQ(names(json::parse(recorder.to_json())), (std::vector<std::string>{"mine"}));
}

class FlightRecorderFiles : public testing::Test {
 protected:
  // Of a rank that has submitted one operation.
  std::unique_ptr<FlightRecorder> recorder_of(Rank rank, const std::string& job) {
    auto recorder = std::make_unique<FlightRecorder>(
        rank, 4, FlightRecorderOptions{.base = folder.file("base"), .base_is_default = true});
    recorder->begin(job, true);
    recorder->submitted(submission_of(1, "x", at_us(0)));
    return recorder;
  }
  std::string warning_of(FlightRecorder& recorder) {
    testing::internal::CaptureStderr();
    recorder.stopped(kGone, false);
    return testing::internal::GetCapturedStderr();
  }
  std::vector<std::string> in(const std::string& inner) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.file(inner))) {
      found.push_back(entry.path().filename().string());
    }
    std::ranges::sort(found);
    return found;
  }
  mode_t mode_of(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(lstat(folder.file(name).c_str(), &status), 0) << name;
    return status.st_mode & 07777;
  }

  TemporaryFolder folder;
};

TEST_F(FlightRecorderFiles, AFailedJobLeavesOneARank) {
  FlightRecorder recorder(3, 4, {.base = folder.path()});
  recorder.begin("job", true);
  recorder.submitted(submission_of(1, "layer\n\"1\"\xff", at_us(0)));
  recorder.stopped(kGone, false);
  ASSERT_EQ(in("job"), std::vector<std::string>{"flight_recorder.rank3.json"});
  const json dump = json::parse(folder.read("job/flight_recorder.rank3.json"));
  EXPECT_EQ(dump["reason"]["code"], "kTransport");
  EXPECT_EQ(dump["reason"]["message"], "rank 1 is \"gone\"");
  EXPECT_EQ(names(dump), (std::vector<std::string>{"layer\n\"1\"\xef\xbf\xbd"}));
}

TEST_F(FlightRecorderFiles, AllRanksOfAJobHaveOneFolderWhichTheFirstAnnounces) {
  EXPECT_THAT(warning_of(*recorder_of(1, "job")), HasSubstr(folder.file("base/job")));
  EXPECT_EQ(warning_of(*recorder_of(0, "job")), "");
  EXPECT_EQ(in("base/job"),
            (std::vector<std::string>{"flight_recorder.rank0.json", "flight_recorder.rank1.json"}));
  EXPECT_THAT(warning_of(*recorder_of(0, "other")), HasSubstr(folder.file("base/other")));
}

TEST_F(FlightRecorderFiles, NobodyElseCanReadThem) {
  recorder_of(0, "job")->stopped(kGone, false);
  EXPECT_EQ(mode_of("base"), 0700u);
  EXPECT_EQ(mode_of("base/job"), 0700u);
  EXPECT_EQ(mode_of("base/job/flight_recorder.rank0.json"), 0600u);
}

TEST_F(FlightRecorderFiles, AnOrderlyEndAndAJobWithoutOperationsLeaveNone) {
  recorder_of(0, "job")->stopped({StatusCode::kAborted, "rank 1 left"}, true);
  FlightRecorder idle(0, 2, {.base = folder.path()});
  idle.submitted(submission_of(1, "init", at_us(0)));
  idle.begin("job", true);
  idle.stopped(kGone, false);
  FlightRecorder starting(0, 2, {.base = folder.path()});
  starting.submitted(submission_of(1, "init", at_us(0)));
  starting.stopped(kGone, false);
  EXPECT_TRUE(folder.names().empty());
}

TEST_F(FlightRecorderFiles, AFolderThatOthersMayWriteToIsNotUsed) {
  ASSERT_EQ(mkdir(folder.file("base").c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder.file("base").c_str(), 0777), 0);
  EXPECT_THAT(warning_of(*recorder_of(0, "job")), HasSubstr("others may write to it"));
  EXPECT_TRUE(in("base").empty());
}

TEST_F(FlightRecorderFiles, AFileThatCannotBeWrittenLeavesNoPart) {
  ASSERT_EQ(mkdir(folder.file("base").c_str(), 0700), 0);
  ASSERT_EQ(mkdir(folder.file("base/job").c_str(), 0700), 0);
  // No file can take its place.
  ASSERT_EQ(mkdir(folder.file("base/job/flight_recorder.rank0.json").c_str(), 0700), 0);
  EXPECT_THAT(warning_of(*recorder_of(0, "job")),
              HasSubstr("flight_recorder.rank0.json': Is a dir"));
  EXPECT_EQ(in("base/job"), std::vector<std::string>{"flight_recorder.rank0.json"});
}

TEST_F(FlightRecorderFiles, LinksInPlaceOfFoldersAreNotFollowed) {
  ASSERT_EQ(mkdir(folder.file("elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(symlink(folder.file("elsewhere").c_str(), folder.file("base").c_str()), 0);
  EXPECT_THAT(warning_of(*recorder_of(0, "job")), HasSubstr("Not a directory"));
  ASSERT_EQ(unlink(folder.file("base").c_str()), 0);
  ASSERT_EQ(mkdir(folder.file("base").c_str(), 0700), 0);
  ASSERT_EQ(symlink(folder.file("elsewhere").c_str(), folder.file("base/job").c_str()), 0);
  EXPECT_THAT(warning_of(*recorder_of(0, "job")), HasSubstr("Not a directory"));
  EXPECT_TRUE(in("elsewhere").empty());
}

// As defects of old: a link with the name that is written to before the rename.
TEST_F(FlightRecorderFiles, LinksInPlaceOfFilesAreNotFollowed) {
  const std::string precious = folder.write("precious", "precious");
  std::filesystem::create_directories(folder.file("base/job"));
  ASSERT_EQ(chmod(folder.file("base").c_str(), 0700), 0);
  const std::string name = folder.file("base/job/flight_recorder.rank0.json");
  ASSERT_EQ(symlink(precious.c_str(), name.c_str()), 0);
  ASSERT_EQ(symlink(precious.c_str(), (name + ".part").c_str()), 0);
  recorder_of(0, "job")->stopped(kGone, false);
  EXPECT_EQ(folder.read("precious"), "precious");
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(name)));
}

TEST_F(FlightRecorderFiles, AnotherUsersFolderIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder away";
  ASSERT_EQ(mkdir(folder.file("base").c_str(), 0755), 0);
  ASSERT_EQ(chown(folder.file("base").c_str(), 1, 1), 0);
  EXPECT_THAT(warning_of(*recorder_of(0, "job")), HasSubstr("belongs to another user"));
  EXPECT_TRUE(in("base").empty());
}

TEST_F(FlightRecorderFiles, TheNewestJobsAreKeptAndNothingElseIsRemoved) {
  const std::filesystem::file_time_type past =
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (int i = 0; i < kJobsKept + 3; ++i) {
    const std::string job = "job" + std::to_string(i);
    recorder_of(0, job)->stopped(kGone, false);
    std::filesystem::last_write_time(folder.file("base/" + job), past + std::chrono::seconds(i));
  }
  std::filesystem::create_directory(folder.file("base/.mine"));
  folder.write("base/job3/notes", "mine");
  std::filesystem::last_write_time(folder.file("base/job3"), past);
  recorder_of(0, "last")->stopped(kGone, false);
  const std::vector<std::string> left = in("base");
  EXPECT_THAT(left, testing::IsSupersetOf({".mine", "last", "job18", "job4", "job3"}));
  EXPECT_EQ(left.size(), kJobsKept + 2u);
  EXPECT_EQ(in("base/job3"), std::vector<std::string>{"notes"});
}

TEST_F(FlightRecorderFiles, AFolderThatTheUserChoseKeepsEverything) {
  for (int i = 0; i < kJobsKept + 3; ++i) {
    FlightRecorder recorder(0, 1, {.base = folder.path()});
    recorder.begin("job" + std::to_string(i), false);
    recorder.submitted(submission_of(1, "x", at_us(0)));
    recorder.stopped(kGone, false);
  }
  EXPECT_EQ(folder.names().size(), kJobsKept + 3u);
}

TEST_F(FlightRecorderFiles, APathThatCannotBeWrittenIsNamed) {
  FlightRecorder recorder(0, 2, {.base = "/nonexistent/folder"});
  recorder.begin("job", true);
  recorder.submitted(submission_of(1, "x", at_us(0)));
  EXPECT_THAT(warning_of(recorder), HasSubstr("/nonexistent/folder"));  // and goes on
  EXPECT_THAT(
      message_of<InvalidArgumentError>([&] { recorder.dump("/nonexistent/folder/x.json"); }),
      HasSubstr("/nonexistent/folder/x.json: "));
}

}  // namespace
}  // namespace hvd::engine
