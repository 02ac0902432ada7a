#include "ops/shm/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "core/base/clock.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A process that does nothing until it is killed.
class Idler {
 public:
  Idler() : pid_(fork()) {
    while (pid_ == 0) pause();
  }
  ~Idler() {
    kill();
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  void kill() { ::kill(pid_, SIGKILL); }

 private:
  pid_t pid_;
};

bool becomes_true(const std::atomic<bool>& flag, Duration limit) {
  const TimePoint deadline = Clock::now() + limit;
  while (!flag && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  return flag;
}

// start_time 0 stands for a system without /proc, which has to ask by kill(pid, 0).
ProcessId process_of(pid_t pid) {
  ProcessId process{pid, 0};
  for (process.start_time = this_process().start_time; !is_alive(process);) ++process.start_time;
  return process;
}

TEST(Process, ThatNobodyReapedIsNotAlive) {
  Idler idler;
  const ProcessId process = process_of(idler.pid());
  idler.kill();
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(idler.pid()), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(is_alive(process));
}

TEST(Process, WithTheNumberOfAnEarlierOneIsAnother) {
  EXPECT_TRUE(is_alive(this_process()));
  EXPECT_FALSE(is_alive({this_process().pid, this_process().start_time - 1}));
}

TEST(PeerWatch, TellsOnceWhichPeerEnded) {
  Idler first;
  Idler second;
  std::atomic<bool> ended[2] = {false, false};
  std::atomic<int> calls{0};
  const std::vector<ProcessHandle> peers = {ProcessHandle(process_of(first.pid())),
                                            ProcessHandle(process_of(second.pid()))};
  PeerWatch watch(peers, [&](std::size_t i) {
    ++calls;
    ended[i] = true;
  });
  second.kill();
  EXPECT_TRUE(becomes_true(ended[1], seconds(30)));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(ended[0]);
  EXPECT_EQ(calls, 1);
}

TEST(PeerWatch, IsNotFooledByANewProcessWithTheNumberOfADeadOne) {
  Idler idler;
  ProcessId earlier = process_of(idler.pid());
  --earlier.start_time;
  std::atomic<bool> ended{false};
  PeerWatch watch({ProcessHandle(earlier)}, [&](std::size_t) { ended = true; });
  EXPECT_TRUE(becomes_true(ended, seconds(30)));
}

}  // namespace
}  // namespace hvd::engine
