#include "runner/output/output_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/status.h"
#include "test/support/temporary_folder.h"

namespace hvd::runner {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RankFilesTest : public testing::Test {
 protected:
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = fs::path(temporary_.path()) / "ranks";
};

TEST_F(RankFilesTest, KeepEachRanksStreamsByteByByte) {
  RankFiles files((folder_ / "deep").string(), 2);
  EXPECT_EQ(files.write(1, Stream::kStdout, "one\n"), "");
  EXPECT_EQ(files.write(1, Stream::kStderr, "oh"), "");
  EXPECT_EQ(files.write(1, Stream::kStdout, "two\r\n"), "");
  EXPECT_EQ(read("deep/rank.1/stdout"), "one\ntwo\r\n");
  EXPECT_EQ(read("deep/rank.1/stderr"), "oh");
  EXPECT_EQ(read("deep/rank.0/stdout"), "");
}

// GAP-41: Horovod's padding fails for one process.
TEST_F(RankFilesTest, WorkForOneRank) {
  RankFiles files(folder_.string(), 1);
  EXPECT_EQ(files.write(0, Stream::kStdout, "x"), "");
  EXPECT_EQ(read("rank.0/stdout"), "x");
}

TEST_F(RankFilesTest, NumbersHaveTheDigitsOfTheLastRank) {
  RankFiles files(folder_.string(), 11);
  EXPECT_TRUE(fs::exists(folder_ / "rank.00" / "stderr"));
  EXPECT_TRUE(fs::exists(folder_ / "rank.10" / "stderr"));
  EXPECT_FALSE(fs::exists(folder_ / "rank.11"));
}

TEST_F(RankFilesTest, TenRanksNeedOneDigit) {
  RankFiles files(folder_.string(), 10);
  EXPECT_TRUE(fs::exists(folder_ / "rank.9" / "stdout"));
}

TEST_F(RankFilesTest, AreNotThereWhenNobodyAskedForThem) {
  EXPECT_EQ(RankFiles("", 2).write(0, Stream::kStdout, "x"), "");
}

TEST_F(RankFilesTest, SayWhenAFolderCannotBeMade) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  try {
    RankFiles files((folder_ / "file").string(), 1);
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--output-filename: cannot create"));
    EXPECT_THAT(error.what(), HasSubstr("Not a directory"));
  }
}

// --output-filename=/tmp/out is easily guessed, and who makes that folder first decides what is in
// it.
TEST_F(RankFilesTest, ThatAreLinksOfAnotherUserAreNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make a link of another user";
  const std::string precious = temporary_.write("precious", "precious");
  fs::create_directories(folder_ / "rank.0");
  fs::create_symlink(precious, folder_ / "rank.0" / "stderr");
  ASSERT_EQ(lchown((folder_ / "rank.0" / "stderr").c_str(), 1, 1), 0);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { RankFiles(folder_.string(), 1); }),
              HasSubstr("rank.0/stderr': its symbolic link is not followed"));
  EXPECT_EQ(temporary_.read("precious"), "precious");
}

TEST_F(RankFilesTest, SayOnceThatTheDiskIsFull) {
  fs::create_directories(folder_ / "rank.0");
  fs::create_symlink("/dev/full", folder_ / "rank.0" / "stdout");
  RankFiles files(folder_.string(), 1);
  EXPECT_THAT(files.write(0, Stream::kStdout, "x"), HasSubstr("No space left"));
  EXPECT_EQ(files.write(0, Stream::kStdout, "x"), "");
}

}  // namespace
}  // namespace hvd::runner
