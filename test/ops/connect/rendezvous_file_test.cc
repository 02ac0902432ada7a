// What others put where rank 0's file is going to be.

#include "ops/connect/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/system/host.h"
#include "test/ops/connect/rendezvous_places.h"
#include "test/support/run_ranks.h"

namespace hvd::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A pipe would be waited for, whatever the deadline; /dev/zero is a line that never ends.
TEST(RendezvousFile, PipesAndLinksAreNeitherReadNorReplaced) {
  const MeetingPoint point = file_point();
  for (const std::string target : {"", "/dev/zero"}) {
    if (target.empty()) {
      ASSERT_EQ(mkfifo(point.where.c_str(), 0666), 0);
    } else {
      std::filesystem::create_symlink(target, point.where);
    }
    for (const Rank rank : {0, 1}) {
      const Status status = status_of([&] { attend({point, rank, 2, ""}, in(kSoon)); });
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
      EXPECT_THAT(status.message(), HasSubstr(point.where + ": is "));
    }
    EXPECT_FALSE(std::filesystem::is_regular_file(std::filesystem::symlink_status(point.where)));
    std::filesystem::remove(point.where);
  }
}

TEST(RendezvousFile, AnotherUsersFileIsNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as two users";
  const MeetingPoint point = file_point();
  std::ofstream(point.where) << "horovod_cpp rendezvous 2\n"
                             << boot_id() << "\nhvd-theirs\nsecret\n";
  ASSERT_EQ(chown(point.where.c_str(), 1, 1), 0);
  for (const Rank rank : {0, 1}) {
    const Status status = status_of([&] { attend({point, rank, 2, ""}, in(kSoon)); });
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(point.where), HasSubstr("belongs to another user (uid 1)")));
  }
  std::filesystem::remove(point.where);
}

TEST(RendezvousFile, FilesOfGuessableNamesAreNoObstacleAndStay) {
  const MeetingPoint point = file_point();
  const std::string draft = point.where + "." + std::to_string(getpid());
  std::filesystem::create_directory(draft);  // as a file in /tmp that we may not remove
  run_ranks(2, [&](Rank rank) {
    attend({point, rank, 2, ""}, in(kPlenty))->all_gather("x", in(kPlenty));
  });
  EXPECT_TRUE(std::filesystem::remove(draft));
}

}  // namespace
}  // namespace hvd::test
