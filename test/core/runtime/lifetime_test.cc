// How a Runtime begins and ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "test/core/runtime/gated_control_plane.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/message_of.h"
#include "test/support/run_ranks.h"
#include "test/support/threads.h"

namespace hvd::engine {
namespace {

using test::allreduce;
using test::run_ranks;
using test::shared;
using test::SimRanks;

TEST(Shutdown, FailsWhatIsPendingAndNamesWhoLeft) {
  SimRanks ranks(3);
  const Handle handle = ranks[1].submit(allreduce("pending", shared<float>({1})));
  ranks[2].shutdown();
  EXPECT_THAT(message_of<AbortedError>([&] { handle.wait(); }), testing::HasSubstr("rank 2"));
  ranks[1].shutdown();
  EXPECT_THROW(ranks[1].submit(allreduce("later", shared<float>({1}))), AbortedError);
  EXPECT_EQ(ranks[1].stopped().code(), StatusCode::kAborted);
}

// Who waits for a rank that left reads who it was, what for, where, and what helps.
TEST(Shutdown, TellsThoseWhoWaitWhatToDoNext) {
  SimRanks ranks(2);
  ranks[0].notifier().set_location_callback([] { return "m.py:82 in train"; });
  run_ranks(2, [&](Rank rank) {
    ranks[rank].submit(allreduce("allreduce.step", shared<float>({1}))).wait();
  });
  const Handle first = ranks[0].submit(allreduce("allreduce.w and 7 more", shared<float>({1})));
  const Handle second = ranks[0].submit(allreduce("allreduce.b", shared<float>({1})));
  test::wait_until_others_are_asleep();  // until rank 0 has announced both
  ranks[1].shutdown();
  const std::string left =
      "rank 1 left the job after 1 submission (it ended, or called shutdown()) while rank 0 waits "
      "for 'w' and 7 more (allreduce), submission 2, at m.py:82 in train. Different numbers of "
      "batches? See hvd.join(), and JoinCallback for Keras.";
  EXPECT_EQ(test::error_of(first), left);
  EXPECT_EQ(test::error_of(second), left);
  EXPECT_EQ(message_of<AbortedError>(
                [&] { ranks[0].submit(allreduce("allreduce.c", shared<float>({1}))); }),
            "'c' (allreduce) was not submitted: " + left);
}

// A program that is busy does not keep the others' error back for long.
TEST(Shutdown, DoesNotWaitForAProgramThatCannotSayWhereItIs) {
  test::Gate gate;  // outlives the thread that is held up at it
  gate.close();
  SimRanks ranks(2);
  ranks[0].notifier().set_location_callback([&] {
    gate.pass();
    return "never in time";
  });
  const Handle handle = ranks[0].submit(allreduce("x", shared<float>({1})));
  ranks[1].shutdown();
  EXPECT_EQ(test::error_of(handle),
            "rank 1 left the job after 0 submissions (it ended, or called shutdown()) while rank 0 "
            "waits for 'x', submission 1. Different numbers of batches? See hvd.join(), and "
            "JoinCallback for Keras.");
  gate.open();
}

TEST(Shutdown, FailsTheLeaversOwnSubmissions) {
  SimRanks ranks(2);
  const Handle handle = ranks[0].submit(allreduce("x", shared<float>({1})));
  ranks[0].shutdown();
  EXPECT_TRUE(handle.done());
  EXPECT_THROW(handle.wait(), AbortedError);
}

// What all ranks have submitted still runs, in whatever state the leaver finds it.
TEST(Shutdown, FinishesWhatIsCompleteOnAllRanks) {
  for (const bool asynchronous : {false, true}) {
    for (int round = 0; round < 20; ++round) {
      SimRanks ranks(3, {.asynchronous = asynchronous});
      run_ranks(3, [&](Rank rank) {
        std::vector<std::shared_ptr<std::vector<float>>> values;
        std::vector<Handle> handles;
        for (int i = 0; i < 10; ++i) {
          values.push_back(shared<float>({1}));
          handles.push_back(ranks[rank].submit(allreduce(std::to_string(i), values.back())));
        }
        // Rank 0 waits before it leaves: so all of them are complete.
        if (rank == 0) {
          for (const Handle& handle : handles) handle.wait();
          ranks[0].shutdown();
        }
        for (int i = 0; i < 10; ++i) {
          const auto index = static_cast<std::size_t>(i);
          EXPECT_NO_THROW(handles[index].wait());
          EXPECT_EQ(values[index]->front(), 3);
        }
      });
    }
  }
}

TEST(Shutdown, IsIdempotentAndThreadSafe) {
  SimRanks ranks(2);
  run_ranks(4, [&](int thread) { ranks[thread % 2].shutdown(); });
  ranks[0].shutdown();
}

TEST(Shutdown, OfOneRankEndsTheOthersSubmitLoop) {
  SimRanks ranks(4);
  run_ranks(4, [&](Rank rank) {
    if (rank == 3) {
      for (int i = 0; i < 5; ++i) {
        ranks[rank].submit(allreduce(std::to_string(i), shared<float>({1}))).wait();
      }
      ranks[rank].shutdown();
      return;
    }
    try {
      for (int i = 0;; ++i) {
        ranks[rank].submit(allreduce(std::to_string(i), shared<float>({1}))).wait();
      }
    } catch (const AbortedError&) {
    }
  });
}

// Entries of a directory of this process in /proc.
std::size_t count_entries(const char* directory) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory),
                                                std::filesystem::directory_iterator()));
}

void use_everything(int round) {
  SimRanks ranks(3, {.asynchronous = round % 2 == 1});
  for (Rank rank = 0; rank < 3; ++rank)
    ranks[rank].notifier().set_location_callback([] { return "here"; });
  run_ranks(3, [&](Rank rank) {
    const auto values = shared<float>({1});
    ranks[rank].submit(allreduce("x", values)).wait();
    EXPECT_EQ(values->front(), 3);
    const auto set = ranks[rank].submit(test::add_set("set", {0, 2})).wait().number;
    if (rank != 1) {
      const auto row = test::allgather("row", shared<float>({1}), 1);
      ranks[rank].submit(test::in_set(static_cast<ProcessSetId>(set), row)).wait();
    }
    ranks[rank].submit(test::send(shared<float>({1}), (rank + 1) % 3, 0));
    ranks[rank].submit(test::receive(shared<float>({1}), (rank + 2) % 3, 0)).wait();
    ranks[rank].submit(test::join("join")).wait();
  });
}

TEST(Lifetime, AHundredRoundsLeaveNeitherThreadsNorFilesNorMemoryBehind) {
  mallopt(M_ARENA_MAX, 1);  // how many there are depends on which threads allocate at once
  for (int round = 0; round < 60; ++round) use_everything(round);  // caches fill
  const std::size_t threads = test::thread_count();
  const std::size_t files = count_entries("/proc/self/fd");
  const std::size_t bytes = mallinfo2().uordblks;
  for (int round = 0; round < 100; ++round) use_everything(round);
  EXPECT_TRUE(test::thread_count_falls_to(threads));
  EXPECT_EQ(count_entries("/proc/self/fd"), files);
  // Less than a small object a round. (Sanitizers have heaps of their own and look for themselves.)
  EXPECT_LT(mallinfo2().uordblks, bytes + 100 * 16);
}

TEST(Lifetime, ARuntimeThatWasNeverUsedEndsAtOnce) {
  const TimePoint start = Clock::now();
  for (int round = 0; round < 10; ++round) SimRanks ranks(4);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
}

TEST(Lifetime, RanksMayGoInAnyOrder) {
  for (Rank first = 0; first < 4; ++first) {
    SimRanks ranks(4, {.ranks_per_host = 2});
    for (Rank i = 0; i < 4; ++i) {
      ranks.runtimes[static_cast<std::size_t>((first + i) % 4)].reset();
    }
  }
}

// Runs `body` in a forked child; true if it threw AbortedError there.
template <typename Body>
bool aborted_in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    try {
      body();
    } catch (const AbortedError&) {
      code = 0;
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Fork, CallsInTheChildThrowInsteadOfHanging) {
  SimRanks ranks(2);
  const Handle pending = ranks[0].submit(allreduce("x", shared<float>({1})));
  // Until the coordinators sleep: AddressSanitizer's allocator (g++ 12) is not safe to fork while
  // another thread is in it, glibc's is.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  test::wait_until_others_are_asleep();
  EXPECT_TRUE(aborted_in_child([&] { ranks[0].submit(allreduce("y", shared<float>({1}))); }));
  EXPECT_TRUE(aborted_in_child([&] { ranks[0].shutdown(); }));
  EXPECT_TRUE(aborted_in_child([&] { pending.wait(); }));
  EXPECT_TRUE(aborted_in_child([&] {
    ranks.runtimes.clear();  // must not join threads that are not here
    throw AbortedError("came back");
  }));
  ranks[1].submit(allreduce("x", shared<float>({1}))).wait();
  pending.wait();  // the parent is as it was
}

}  // namespace
}  // namespace hvd::engine
