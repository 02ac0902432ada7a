#include "ops/shm/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/base/status.h"
#include "ops/shm/mailboxes.h"

namespace hvd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SharedMemory, IsZeroedAndSharedByItsPath) {
  const auto made = SharedMemory::create(10'000);
  EXPECT_TRUE(std::all_of(made->data(), made->data() + made->bytes(),
                          [](std::byte each) { return each == std::byte{0}; }));
  const auto opened = SharedMemory::open(made->path(), 10'000);
  made->data()[9'999] = std::byte{42};
  EXPECT_EQ(opened->data()[9'999], std::byte{42});
}

TEST(SharedMemory, LosesItsNameButNotItsContent) {
  const auto made = SharedMemory::create(100);
  const auto opened = SharedMemory::open(made->path(), 100);
  made->remove_name();
  EXPECT_FALSE(std::filesystem::exists(made->path()));
  EXPECT_THROW(SharedMemory::open(made->path(), 100), PeerLostError);
  made->data()[0] = std::byte{7};
  EXPECT_EQ(opened->data()[0], std::byte{7});
}

TEST(SharedMemory, TakesItsNameAlongWhenNobodyRemovedIt) {
  const std::string path = SharedMemory::create(100)->path();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SharedMemory, OfLessThanWasAskedForIsNotOpened) {
  const auto made = SharedMemory::create(100);
  EXPECT_THROW(SharedMemory::open(made->path(), 1'000'000), PeerLostError);
}

TEST(SharedMemory, SaysHowMuchWasAskedForWhenThereIsNone) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 63;  // refused before any page is taken
  try {
    SharedMemory::create(kTooMuch);
    FAIL() << "half of all addresses";
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(std::to_string(kTooMuch)), HasSubstr("/dev/shm"),
                                    HasSubstr("memfd")));
  }
}

// In a child with a /dev/shm of 64 KiB of its own; 77 = this user may not mount.
int use_a_tiny_folder() {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
  if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0) return 77;
  const auto made = SharedMemory::create(1'000'000);
  std::fill(made->data(), made->data() + made->bytes(), std::byte{1});  // SIGBUS if not reserved
  const auto opened = SharedMemory::open(made->path(), 1'000'000);
  return opened->data()[999'999] == std::byte{1} && std::filesystem::is_empty("/dev/shm") ? 0 : 1;
}

TEST(SharedMemory, FallsBackToAMemfdWhereTheFolderIsTooSmall) {
  const pid_t child = fork();
  if (child == 0) _exit(use_a_tiny_folder());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this user may not mount a folder";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// In a child with a /dev/shm of 64 KiB of its own; 77 = this user may not mount.
int reserve_more_than_a_tiny_folder_has() {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
  if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0) return 77;
  const auto made = SharedMemory::create(1'000'000, 4096);
  const auto opened = SharedMemory::open(made->path(), 1'000'000);
  opened->reserve(40'000, 10'000);
  made->data()[49'999] = std::byte{1};  // SIGBUS if not reserved
  try {
    made->reserve(0, 1'000'000);
  } catch (const UnsupportedError& error) {
    return std::string(error.what()).find("1000000 bytes") != std::string::npos ? 0 : 2;
  }
  return 1;
}

TEST(SharedMemory, ReservesPagesLaterOrSaysThatThereAreNone) {
  const pid_t child = fork();
  if (child == 0) _exit(reserve_more_than_a_tiny_folder_has());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this user may not mount a folder";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Mailboxes, FitASmallDevShmForAnyNumberOfRanks) {
  for (const int ranks : {2, 8, 64, 128}) {
    EXPECT_LE(Mailboxes::bytes_needed(ranks), std::size_t{32} << 20) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace hvd
