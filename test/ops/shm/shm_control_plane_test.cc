#include "ops/shm/shm_control_plane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "core/runtime/wake/waiting.h"
#include "test/support/control_plane_contract.h"
#include "test/support/run_ranks.h"
#include "test/support/threads.h"

namespace hvd::engine {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

Placement one_host(Rank rank, int size) {
  const std::vector<std::string> names(static_cast<std::size_t>(size), "node7");
  return place(rank, names, names);
}

// The ranks of one host, all in this process.
class ShmWorld {
 public:
  explicit ShmWorld(int size) {
    const auto memory = SharedMemory::create(Mailboxes::bytes_needed(size));
    const std::vector<ProcessHandle> processes(static_cast<std::size_t>(size),
                                               ProcessHandle(this_process()));
    for (Rank rank = 0; rank < size; ++rank) {
      planes_.push_back(std::make_unique<ShmControlPlane>(one_host(rank, size), memory, processes));
    }
  }
  ControlPlane& operator[](Rank rank) { return *planes_[static_cast<std::size_t>(rank)]; }
  void leave(Rank rank) { planes_[static_cast<std::size_t>(rank)].reset(); }

 private:
  std::vector<std::unique_ptr<ControlPlane>> planes_;
};

using ContractCase = std::tuple<test::ControlPlaneCase, int>;

class ShmControlPlaneContract : public ::testing::TestWithParam<ContractCase> {};

TEST_P(ShmControlPlaneContract, Holds) {
  const auto& [contract, size] = GetParam();
  ShmWorld world(size);
  test::run_ranks(
      size, [&, run = contract.run, count = size](Rank rank) { run(world[rank], rank, count); });
}

INSTANTIATE_TEST_SUITE_P(ThreadsAsRanks, ShmControlPlaneContract,
                         ::testing::Combine(::testing::ValuesIn(test::control_plane_contract()),
                                            ::testing::Values(2, 3, 5)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param).name + "_" +
                                  std::to_string(std::get<1>(instance.param));
                         });

Bytes text_message(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

// Rank 0 sleeps, and is patient.
class RankThatDefersWakes : public ::testing::Test {
 protected:
  RankThatDefersWakes() {
    world_[0].doorbell().listen(kDefersWake);
    sleeper_ = std::thread([this] {
      Doorbell& bell = world_[0].doorbell();
      const auto seen = bell.rings();
      sleeper_id_ = test::thread_id();
      bell.wait_until(seen, Clock::now() + seconds(20));
      woken_ = Clock::now();
    });
    test::wait_until_asleep(sleeper_id_);
  }
  ~RankThatDefersWakes() override {
    world_[0].doorbell().ring();
    sleeper_.join();
  }
  TimePoint woken() {
    sleeper_.join();
    sleeper_ = std::thread([] {});
    return woken_;
  }

  ShmWorld world_{2};
  std::thread sleeper_;
  std::atomic<pid_t> sleeper_id_{0};
  TimePoint woken_;
};

TEST_F(RankThatDefersWakes, IsRungAtOnceByWhoDoesNotWait) {
  const TimePoint sent = Clock::now();
  world_[1].send(0, text_message("x"));
  EXPECT_LT(woken() - sent, seconds(10));
  EXPECT_FALSE(world_[1].poll_interval().has_value());
}

TEST_F(RankThatDefersWakes, IsRungAMomentLaterByWhoWaits) {
  const BlockedThread blocked;
  const TimePoint sent = Clock::now();
  world_[1].send(0, text_message("x"));
  EXPECT_EQ(world_[1].poll_interval(), kWakeDelay);
  while (world_[1].poll_interval()) world_[1].poll();
  EXPECT_GE(Clock::now() - sent, kWakeDelay);
  EXPECT_LT(woken() - sent, seconds(10));
}

TEST_F(RankThatDefersWakes, IsNotRungForWhatItHasReadMeanwhile) {
  const BlockedThread blocked;
  const auto rings = world_[0].doorbell().rings();
  world_[1].send(0, text_message("x"));
  EXPECT_TRUE(world_[0].poll().has_value());
  world_[1].poll();
  EXPECT_FALSE(world_[1].poll_interval().has_value());
  EXPECT_EQ(world_[0].doorbell().rings(), rings + 1);  // it sees that without a wake
}

TEST(ShmControlPlane, RefusesARankOfAnotherHost) {
  const std::vector<std::string> names = {"a", "b", "a"};
  const auto memory = SharedMemory::create(Mailboxes::bytes_needed(2));
  ShmControlPlane plane(place(0, names, names), memory,
                        {ProcessHandle(this_process()), ProcessHandle(this_process())});
  EXPECT_NO_THROW(plane.send(2, {}));
  EXPECT_THROW(plane.send(1, {}), InternalError);
}

// How long a rank takes to leave whose last message is for one that reads no more.
Duration leaving_with_mail_left(bool job_failed) {
  ShmWorld world(2);
  world[0].send(1, Bytes(1 << 22));  // more than a mailbox takes
  if (job_failed) world[0].job_failed();
  const TimePoint start = Clock::now();
  world.leave(0);
  return Clock::now() - start;
}

TEST(ShmControlPlane, AfterAnErrorWhoLeavesDoesNotWaitLongForARankThatReadsNoMore) {
  EXPECT_GE(leaving_with_mail_left(false), kFlushLimit);
  Duration shortest = kFlushLimit;  // this thread may get no core in some of the attempts
  for (int attempt = 0; attempt < 20 && shortest >= kFlushLimit; ++attempt) {
    shortest = leaving_with_mail_left(true);
  }
  EXPECT_LT(shortest, kFlushLimit);
}

TEST(ShmControlPlane, MailOfARankThatLeftStillArrivesAndNobodyMissesIt) {
  ShmWorld world(2);
  world[1].send(0, text_message("bye"));
  world.leave(1);
  const auto message = world[0].poll();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->bytes, text_message("bye"));
  EXPECT_FALSE(world[0].poll().has_value());
  world[0].send(1, text_message("too late"));
}

TEST(ShmControlPlane, AnAbortedRankIsLostWithItsReasonAfterItsMailOnce) {
  ShmWorld world(3);
  world[2].send(0, text_message("first"));
  const auto seen = world[0].doorbell().rings();
  world[2].abort({StatusCode::kInternal, "out of cheese"});
  EXPECT_NE(world[0].doorbell().rings(), seen);
  EXPECT_EQ(world[0].poll()->bytes, text_message("first"));
  try {
    world[0].poll();
    FAIL() << "the failure went unnoticed";
  } catch (const LostRankError& error) {
    EXPECT_EQ(error.rank(), 2);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 2 on host node7"), HasSubstr("out of cheese")));
  }
  EXPECT_FALSE(world[0].poll().has_value());
  EXPECT_THROW(world[1].poll(), LostRankError);
}

TEST(ShmControlPlane, AFullMailboxRingsTheSenderWhenItHasRoomAgain) {
  ShmWorld world(2);
  const Bytes large(1 << 20);
  world[0].send(1, large);
  while (world[1].poll().has_value()) {
  }
  EXPECT_NE(world[0].doorbell().rings(), 0u) << "nobody told the sender to go on";
}

// What a forked rank writes down for its parent.
struct Record {
  std::atomic<int> ready{0};
  ProcessId processes[3];
  double seconds[3];
  Rank lost[3];
  char text[3][200];
};

void be_a_rank(Rank rank, const std::shared_ptr<SharedMemory>& memory, Record& record) {
  record.processes[rank] = this_process();
  ++record.ready;
  while (record.ready != 3) usleep(1000);
  ShmControlPlane plane(one_host(rank, 3), memory,
                        {ProcessHandle(record.processes[0]), ProcessHandle(record.processes[1]),
                         ProcessHandle(record.processes[2])});
  if (rank == 2) {
    for (Rank to : {0, 1}) plane.send(to, text_message("the last"));
    raise(SIGKILL);
  }
  const TimePoint start = Clock::now();
  try {
    const Message message = test::next_message(plane);
    if (message.bytes != text_message("the last")) return;
    test::next_message(plane);
  } catch (const LostRankError& error) {
    record.lost[rank] = error.rank();
    record.seconds[rank] = to_seconds(Clock::now() - start);
    std::snprintf(record.text[rank], sizeof record.text[rank], "%s", error.what());
  }
}

TEST(ShmControlPlane, SurvivorsNameAKilledRankAfterItsMail) {
  const auto memory = SharedMemory::create(Mailboxes::bytes_needed(3));
  void* page =
      mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto& record = *new (page) Record;
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < 3; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      be_a_rank(rank, memory, record);
      _exit(0);
    }
    children.push_back(child);
  }
  // Rank 2 stays a zombie until the others are done: nobody has to reap it first.
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  for (Rank rank : {0, 1}) {
    EXPECT_EQ(record.lost[rank], 2) << "rank " << rank;
    EXPECT_LT(record.seconds[rank], 20.0);
    EXPECT_THAT(record.text[rank], HasSubstr("rank 2 on host node7 (pid " +
                                             std::to_string(children[2]) + ") is gone"));
  }
  munmap(page, sizeof(Record));
}

TEST(ShmControlPlane, ARankThatLeftInOrderIsNotLostWhenItsProcessEnds) {
  const auto memory = SharedMemory::create(Mailboxes::bytes_needed(2));
  const ProcessId parent = this_process();
  int left[2];
  int may_end[2];
  ASSERT_EQ(pipe(left), 0);
  ASSERT_EQ(pipe(may_end), 0);
  const pid_t child = fork();
  if (child == 0) {
    const ProcessId self = this_process();
    ShmControlPlane(one_host(1, 2), memory, {ProcessHandle(parent), ProcessHandle(self)})
        .send(0, text_message("bye"));
    char byte = 0;
    const bool told = write(left[1], &self, sizeof self) == sizeof self;
    _exit(told && read(may_end[0], &byte, 1) == 1 ? 0 : 1);
  }
  ProcessId leaver;
  ASSERT_EQ(read(left[0], &leaver, sizeof leaver), static_cast<ssize_t>(sizeof leaver));
  ShmControlPlane plane(one_host(0, 2), memory, {ProcessHandle(parent), ProcessHandle(leaver)});
  EXPECT_EQ(test::next_message(plane).bytes, text_message("bye"));
  const auto seen = plane.doorbell().rings();
  EXPECT_EQ(write(may_end[1], "x", 1), 1);
  plane.doorbell().wait_until(seen, Clock::now() + seconds(30));
  EXPECT_NE(plane.doorbell().rings(), seen) << "the end of the process went unnoticed";
  EXPECT_NO_THROW(EXPECT_FALSE(plane.poll().has_value()));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int fd : {left[0], left[1], may_end[0], may_end[1]}) close(fd);
}

}  // namespace
}  // namespace hvd::engine
