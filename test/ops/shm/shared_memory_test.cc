#include "ops/shm/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "core/base/status.h"
#include "ops/shm/data_segment.h"
#include "test/support/failing_fallocate.h"
#include "test/support/message_of.h"

namespace hvd::engine {
namespace {

using test::FailingFallocate;
using ::testing::AllOf;
using ::testing::HasSubstr;

UniqueFd copy(const UniqueFd& fd) {
  return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}

std::set<std::string> names_in_dev_shm() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with("hvd")) names.insert(entry.path());
  }
  return names;
}

TEST(SharedMemory, IsZeroedAndSharedByItsDescriptor) {
  const auto made = SharedMemory::create(10'000);
  EXPECT_TRUE(std::all_of(made->data(), made->data() + made->bytes(),
                          [](std::byte each) { return each == std::byte{0}; }));
  const auto opened = SharedMemory::open(copy(made->fd()), 10'000);
  made->data()[9'999] = std::byte{42};
  EXPECT_EQ(opened->data()[9'999], std::byte{42});
}

// So nothing can be left behind, whenever the process is killed.
TEST(SharedMemory, NeverHasAName) {
  const auto before = names_in_dev_shm();
  const auto made = SharedMemory::create(10'000);
  EXPECT_EQ(names_in_dev_shm(), before);
  struct stat status {};
  ASSERT_EQ(fstat(made->fd().get(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
}

TEST(SharedMemory, OfLessThanWasAskedForIsNotOpened) {
  const auto made = SharedMemory::create(100);
  EXPECT_THROW(SharedMemory::open(copy(made->fd()), 1'000'000), PeerLostError);
}

TEST(SharedMemory, SaysHowMuchWasAskedForWhenThereIsNone) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 63;  // refused before any page is taken
  EXPECT_THAT(message_of<UnsupportedError>([&] { SharedMemory::create(kTooMuch); }),
              AllOf(HasSubstr(std::to_string(kTooMuch)), HasSubstr("memfd")));
}

// In a child with a /dev/shm of 64 KiB of its own; 77 = this user may not mount.
int use_memory_without_a_folder() {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
  if (mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0) return 77;
  const auto made = SharedMemory::create(1'000'000, 4096);
  const auto opened = SharedMemory::open(copy(made->fd()), 1'000'000);
  opened->reserve(0, 1'000'000);
  std::fill(made->data(), made->data() + made->bytes(), std::byte{1});  // SIGBUS if not reserved
  return opened->data()[999'999] == std::byte{1} && std::filesystem::is_empty("/dev/shm") ? 0 : 1;
}

TEST(SharedMemory, DoesNotDependOnTheSizeOfDevShm) {
  const pid_t child = fork();
  if (child == 0) _exit(use_memory_without_a_folder());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this user may not mount a folder";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SharedMemory, SaysWhenThereIsNoneLeftToReserve) {
  const auto made = SharedMemory::create(1'000'000, 4096);
  const FailingFallocate full(ENOSPC);
  EXPECT_THAT(message_of<UnsupportedError>([&] { made->reserve(4096, 50'000); }),
              AllOf(HasSubstr("50000 bytes"), HasSubstr("No space left")));
}

// As before Linux 6.11, where a signal ends the call and takes back what it had reserved.
TEST(SharedMemory, IsReservedThoughSignalsInterruptIt) {
  constexpr std::size_t kBytes = 4 << 20;
  const FailingFallocate timer(EINTR, 100'000);  // whatever is longer does not get through
  const auto made = SharedMemory::create(kBytes);
  EXPECT_GT(FailingFallocate::refusals(), 0);
  struct stat status {};
  ASSERT_EQ(fstat(made->fd().get(), &status), 0);
  EXPECT_GE(static_cast<std::size_t>(status.st_blocks) * 512, kBytes);
}

std::size_t pages_of(const UniqueFd& file) {
  struct stat status {};
  EXPECT_EQ(fstat(file.get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

class ArenaFilesOfTwo : public ::testing::Test {
 protected:
  ArenaFilesOfTwo() {
    for (UniqueFd& file : files_) file = make_memory_file();
  }
  ArenaFiles of_rank(int rank) const {
    std::vector<UniqueFd> copies;
    for (const UniqueFd& file : files_) copies.push_back(copy(file));
    return {std::move(copies), rank};
  }

  UniqueFd files_[2];
};

TEST_F(ArenaFilesOfTwo, GiveTheOthersWhatOneMakes) {
  ArenaFiles maker = of_rank(1);
  const ArenaFiles other = of_rank(0);
  const auto first = maker.make(5'000);
  const auto second = maker.make(3'000'000);
  const auto opened = other.open(1, second->offset(), 3'000'000);
  EXPECT_EQ(opened->data()[2'999'999], std::byte{0});
  second->data()[2'999'999] = std::byte{7};
  first->data()[4'999] = std::byte{9};
  EXPECT_EQ(opened->data()[2'999'999], std::byte{7});
  EXPECT_EQ(opened->data()[0], std::byte{0});
}

TEST_F(ArenaFilesOfTwo, GiveTheMemoryOfAnArenaBack) {
  auto maker = std::make_unique<ArenaFiles>(of_rank(1));
  const auto kept = maker->make(1 << 20);
  kept->data()[0] = std::byte{1};
  auto gone = maker->make(8 << 20);
  const auto opened = of_rank(0).open(1, gone->offset(), 8 << 20);
  EXPECT_GE(pages_of(files_[1]), std::size_t{9} << 20);
  maker.reset();  // parts outlive it
  gone.reset();
  EXPECT_LT(pages_of(files_[1]), std::size_t{2} << 20);
  EXPECT_EQ(opened->data()[0], std::byte{0});
  EXPECT_EQ(kept->data()[0], std::byte{1});
}

TEST_F(ArenaFilesOfTwo, RefuseWhatIsNotThere) {
  ArenaFiles maker = of_rank(1);
  const auto made = maker.make(5'000);
  EXPECT_THROW(of_rank(0).open(1, made->offset(), 100'000), PeerLostError);
  EXPECT_THROW(of_rank(0).open(1, ~std::size_t{0}, 2), PeerLostError);
  EXPECT_THROW(of_rank(0).open(0, 0, 1), PeerLostError);
  const FailingFallocate full(ENOSPC);
  EXPECT_THROW(maker.make(5'000), UnsupportedError);
}

TEST(Mailboxes, NeedLittleMemoryForAnyNumberOfRanks) {
  for (const int ranks : {2, 8, 64, 128}) {
    EXPECT_LE(Mailboxes::bytes_needed(ranks), std::size_t{32} << 20) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace hvd::engine
