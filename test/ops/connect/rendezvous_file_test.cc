// The file in which rank 0 leaves its place, and what else may be there.

#include "ops/connect/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/system/host.h"
#include "core/system/interruptible_waits.h"
#include "test/ops/connect/rendezvous_places.h"
#include "test/support/attempts.h"
#include "test/support/run_ranks.h"

namespace hvd::engine::test {
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

TEST(RendezvousFile, WhatAnEarlierJobLeftIsReplacedAndNothingIsLeftBehind) {
  const MeetingPoint point = file_point();
  const std::filesystem::path folder = std::filesystem::path(point.where).parent_path();
  std::ofstream(point.where) << "horovod_cpp rendezvous 2\n" << boot_id() << "\nhvd-gone\nsecret\n";
  run_ranks(2, [&](Rank rank) {
    attend({point, rank, 2, ""}, in(kPlenty))->all_gather("x", in(kPlenty));
  });
  const std::string name = std::filesystem::path(point.where).filename().string();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(name)) << entry.path();
  }
}

// Its file is still there, and another job's rank 0 has the port by now.
TEST(RendezvousFile, WhoAnswersWhereADeadJobWasEndsNoRank) {
  const MeetingPoint point = file_point();
  const MeetingPoint taken = tcp_point();
  const auto other = attend({taken, 0, 2, "the key of another job"}, in(kPlenty));
  std::ofstream(point.where) << "horovod_cpp rendezvous 2\nanother-boot\nhvd-there\nsecret\n"
                             << taken.where << ":" << taken.port << "\n";
  run_ranks(2, [&](Rank rank) {
    if (rank == 0) {
      const auto refusal = first_good_within(
          kSoon,
          [&](Duration limit) { return status_of([&] { other->all_gather("x", in(limit)); }); },
          [](const Status& each) { return each.message().find("away") != std::string::npos; });
      EXPECT_THAT(refusal.message(), HasSubstr("a peer was turned away"));
    }
    const auto others = attend({point, rank, 2, ""}, in(kPlenty));
    EXPECT_EQ(others->all_gather("x", in(kPlenty)).size(), 2u);
  });
}

// HVD_RENDEZVOUS_KEY may be short.
TEST(RendezvousFile, ItsSecretIsNeededBesidesTheKey) {
  const MeetingPoint point = file_point();
  const auto host = attend({point, 0, 2, "x"}, in(kPlenty));
  const MeetingPoint socket{MeetingPoint::Kind::kUnix, read_rendezvous_file(point.where)->socket};
  std::atomic<bool> refused = false;
  run_ranks(3, [&](int i) {
    if (i == 0) {
      EXPECT_EQ(host->all_gather("a", in(kPlenty)).size(), 2u);
    } else if (i == 1) {
      while (!refused) std::this_thread::yield();
      attend({point, 1, 2, "x"}, in(kPlenty))->all_gather("b", in(kPlenty));
    } else {
      EXPECT_THROW(attend({socket, 1, 2, "x"}, in(kPlenty)), PeerLostError);
      refused = true;
    }
  });
}

TEST(RendezvousFile, AFileOfAnotherMachineIsSaidToBeOne) {
  const MeetingPoint point = file_point();
  std::ofstream(point.where) << "horovod_cpp rendezvous 2\nanother-boot\nhvd-there\nsecret\n";
  const Status status = status_of([&] { attend({point, 1, 2, ""}, in(kSoon)); });
  std::filesystem::remove(point.where);
  EXPECT_EQ(status.code(), StatusCode::kStalled);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("another machine"), HasSubstr("no address")));
}

TEST(RendezvousFile, SomebodyElsesFileIsNeitherReadNorReplaced) {
  const MeetingPoint point = file_point();
  for (const std::string content :
       {"", "notes\n", "horovod_cpp rendezvous 2\n", "horovod_cpp rendezvous 2\nboot\n\nx\n",
        "horovod_cpp rendezvous 2\nboot\nx\n", "horovod_cpp rendezvous 2\nboot\nx\ny\nnowhere\n"}) {
    std::ofstream(point.where) << content;
    for (const Rank rank : {0, 1}) {
      const Status status = status_of([&] { attend({point, rank, 2, ""}, in(kSoon)); });
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << content;
      EXPECT_THAT(status.message(), HasSubstr(point.where));
    }
    std::ifstream file(point.where);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), content);
  }
  std::filesystem::remove(point.where);
}

TEST(RendezvousFile, AFolderThatDoesNotAppearIsNamedOnEveryRank) {
  const MeetingPoint point{MeetingPoint::Kind::kFile, "/nonexistent/folder/file", 0};
  for (const Rank rank : {0, 1}) {
    const Status status = status_of([&] { attend({point, rank, 2, ""}, in(kSoon)); });
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("/nonexistent/folder/file"),
                                        HasSubstr("there is no folder /nonexistent/folder")));
  }
}

std::filesystem::path late_folder;

TEST(RendezvousFile, AFolderThatAppearsWhileTheRanksLookForItIsWaitedFor) {
  late_folder = file_point().where;
  const MeetingPoint point{MeetingPoint::Kind::kFile, (late_folder / "file").string(), 0};
  run_ranks(2, [&](Rank rank) {
    const InterruptibleWaits waits(  // called when the rank waits already
        +[] { std::filesystem::create_directory(late_folder); });
    const auto others = attend({point, rank, 2, ""}, in(kPlenty));
    EXPECT_EQ(others->all_gather("x", in(kPlenty)).size(), 2u);
  });
  std::filesystem::remove_all(late_folder);
}

}  // namespace
}  // namespace hvd::engine::test
