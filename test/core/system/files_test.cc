#include "core/system/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "core/system/host.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd::engine {
namespace {

using testing::HasSubstr;

void write(const std::string& path, const std::string& text) {
  EXPECT_TRUE(write_all(open_output(path), text));
}

TEST(OutputFile, IsMadeOrEmptiedThroughLinksOfThisUser) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("log", folder.file("link"));
  write(folder.file("link"), "a long text");
  write(folder.file("link"), "short");
  EXPECT_EQ(folder.read("log"), "short");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
}

TEST(OutputFile, DevicesArePossible) {
  write("/dev/null", "x");
  EXPECT_FALSE(write_all(open_output("/dev/full"), "x"));
}

TEST(StandardStreams, ThatWereClosedAreOpened) {
  const auto opened = [] {
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    open_standard_streams();
    const bool both = fcntl(STDIN_FILENO, F_GETFD) == 0 && fcntl(STDERR_FILENO, F_GETFD) == 0;
    const UniqueFd next(open("/dev/null", O_RDONLY));
    _exit(both && next.get() > STDERR_FILENO ? 0 : 1);
  };
  EXPECT_EXIT(opened(), testing::ExitedWithCode(0), "");
}

// What stdout is may be a pipe, to which the link in /proc leads without a name.
TEST(OutputFile, PipesOfThisProcessArePossible) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  write("/proc/self/fd/" + std::to_string(writer.get()), "x");
  char got = 0;
  EXPECT_EQ(read(reader.get(), &got, 1), 1);
  EXPECT_EQ(got, 'x');
}

// Opening one waits for a reader, forever.
TEST(OutputFile, APipeThatNobodyReadsIsAnError) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { open_output(folder.file("pipe")); }),
              HasSubstr(folder.file("pipe")));
}

TEST(OutputFile, IsNoPipeAndNoLinkOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as two users";
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0666), 0);
  ASSERT_EQ(chown(folder.file("pipe").c_str(), 1, 1), 0);
  const UniqueFd reader(open(folder.file("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { open_output(folder.file("pipe")); }),
              HasSubstr("of another user"));
  std::filesystem::create_symlink(folder.write("precious", "precious"), folder.file("link"));
  ASSERT_EQ(lchown(folder.file("link").c_str(), 1, 1), 0);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { open_output(folder.file("link")); }),
              HasSubstr("its symbolic link is not followed"));
  EXPECT_EQ(folder.read("precious"), "precious");
}

using testing::HasSubstr;

void save(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

// The process's, for as long as it lives.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

TEST(AtomicFile, NamesOfLivesBeforeAreNoObstacle) {
  const TemporaryFolder folder;
  for (int count = 0; count < 10; ++count) {  // as a killed process with our number left them
    folder.write("a.tmp." + std::to_string(getpid()) + "." + std::to_string(count), "");
  }
  save(folder.file("a"), "new");
  EXPECT_EQ(folder.read("a"), "new");
  EXPECT_EQ(folder.names().size(), 11u);
}

TEST(AtomicFile, ASymbolicLinkStaysAndItsTargetIsReplaced) {
  const TemporaryFolder folder;
  const std::string real = folder.write("real", "old");
  std::filesystem::create_directory(folder.file("inner"));
  std::filesystem::create_symlink("../real", folder.file("inner/link"));
  std::filesystem::create_symlink("inner/link", folder.file("link"));
  save(folder.file("link"), "new");
  EXPECT_EQ(folder.read("real"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("inner/link")));
}

TEST(AtomicFile, ALinkToNothingMakesItsTarget) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder.file("real"), folder.file("link"));
  save(folder.file("link"), "new");
  EXPECT_EQ(folder.read("real"), "new");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"link", "real"}));
}

TEST(AtomicFile, LinksThatGoRoundAreAnError) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("b", folder.file("a"));
  std::filesystem::create_symlink("a", folder.file("b"));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { save(folder.file("a"), "x"); }),
              HasSubstr("Too many levels of symbolic links"));
}

// In /tmp anybody may put a link where somebody else is going to save, and may make the folder
// first.
TEST(AtomicFile, LinksOfOthersInSharedFoldersAreNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make a link of another user";
  for (const mode_t mode : {01777U, 0777U, 0755U}) {
    for (const uid_t owner : {0U, 1U}) {
      const TemporaryFolder folder;
      const std::string precious = folder.write("precious", "precious");
      std::filesystem::create_directory(folder.file("shared"));
      ASSERT_EQ(chmod(folder.file("shared").c_str(), mode), 0);
      ASSERT_EQ(chown(folder.file("shared").c_str(), owner, owner), 0);
      std::filesystem::create_symlink(precious, folder.file("shared/link"));
      ASSERT_EQ(lchown(folder.file("shared/link").c_str(), 1, 1), 0);
      EXPECT_THAT(message_of<InvalidArgumentError>([&] { save(folder.file("shared/link"), "x"); }),
                  HasSubstr("shared/link: its symbolic link is not followed: Permission denied"))
          << std::oct << mode << " of " << owner;
      EXPECT_EQ(folder.read("precious"), "precious");
    }
  }
}

TEST(AtomicFile, KeepsTheModeOfWhatWasThereAndGivesNewFilesTheUmasks) {
  const TemporaryFolder folder;
  const Umask umask(027);
  save(folder.file("new"), "x");
  EXPECT_EQ(mode_of(folder.file("new")), 0640u);
  for (const mode_t mode : {0600u, 0664u, 0777u}) {
    const std::string path = folder.write("old", "x");
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    save(path, "y");
    EXPECT_EQ(mode_of(path), mode);
  }
}

TEST(AtomicFile, WhatIsNotCommittedLeavesNothing) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  {
    AtomicFile file(folder.file("a"));
    file.write("new", 3);
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
  EXPECT_EQ(folder.read("a"), "old");
}

TEST(AtomicFile, FailuresNameThePath) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { save("/nonexistent/x", ""); }),
              HasSubstr("/nonexistent/x: cannot create /nonexistent/x.tmp."));
  EXPECT_THAT(message_of<InvalidArgumentError>([] { save("/dev/null", ""); }),
              HasSubstr("/dev/null: is a device"));
}

TEST(RandomHex, HasSoManyDigitsAndIsAnotherEachTime) {
  EXPECT_EQ(random_hex(0), "");
  EXPECT_EQ(random_hex(7).size(), 7u);
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(random_hex(16));
  EXPECT_EQ(seen.size(), 100u);
  for (const std::string& text : seen) {
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace hvd::engine
