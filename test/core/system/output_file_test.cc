#include "core/system/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/status.h"
#include "test/support/temporary_folder.h"

namespace hvd {
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

// Opening one waits for a reader, for ever.
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

}  // namespace
}  // namespace hvd
