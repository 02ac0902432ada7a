// Signals to hvdrun that its programs handle themselves, and job control.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <tuple>

#include "runner/process.h"
#include "test/runner/launch.h"
#include "test/support/scoped_environment.h"

namespace hvd::runner {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Of a process: R, S, T, Z...; 0 if it is gone.
char state_of(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name;
  char state = 0;
  return stat >> number >> name >> state ? state : '\0';
}

pid_t parent_of(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  pid_t parent = 0;
  stat >> number >> name >> state >> parent;
  return parent;
}

class PassedSignal : public SignalCase {};

TEST_P(PassedSignal, ReachesEveryRankWhichGoesOn) {
  const int number = std::get<1>(GetParam());
  Launch job({"-np", "2", "python3", "-c",
              "import signal, sys, time\n"
              "seen = []\n"
              "number = int(sys.argv[1])\n"
              "signal.signal(number, lambda signal, frame: seen.append(signal))\n"
              "print('ready')\n"
              "while not seen: time.sleep(0.05)\n"
              "print('got', *seen)",
              std::to_string(number)});
  ASSERT_TRUE(job.wait_for("[0] ready"));
  ASSERT_TRUE(job.wait_for("[1] ready"));
  kill(job.pid(), number);
  const Result result = job.finish();
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string got = "got " + std::to_string(number);
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] " + got), HasSubstr("[1] " + got)));
}

INSTANTIATE_TEST_SUITE_P(Each, PassedSignal,
                         testing::Combine(testing::Values("mpi", "gloo"),
                                          testing::Values(SIGUSR1, SIGUSR2, SIGQUIT, SIGALRM,
                                                          SIGABRT, SIGXCPU, SIGURG, SIGRTMAX)));

class Signals : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { environment_.set("HOROVOD_CONTROLLER", GetParam()); }

 private:
  ScopedEnvironment environment_;
};

INSTANTIATE_TEST_SUITE_P(By, Signals, testing::Values("mpi", "gloo"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(Signals, ThatAProgramDoesNotHandleAreNamed) {
  Launch job({"-np", "2", "sh", "-c", "echo ready; " + kSleep});
  ASSERT_TRUE(job.wait_for("[0] ready"));
  ASSERT_TRUE(job.wait_for("[1] ready"));
  kill(job.pid(), SIGUSR1);
  const Result result = job.finish();
  EXPECT_EQ(result.code, 128 + SIGUSR1);
  EXPECT_THAT(result.err, HasSubstr("SIGUSR1"));
}

// What some schedulers do: each process of the job gets the signal, agents too.
TEST_P(Signals, ToEveryProcessOfTheJobEndNone) {
  Launch job({"-np", "2", "sh", "-c",
              "trap 'seen=1' USR1; echo pid $$ parent $PPID; "
              "while [ -z $seen ]; do sleep 0.05; done; echo seen"});
  ASSERT_TRUE(job.wait_for("[0] pid "));
  ASSERT_TRUE(job.wait_for("[1] pid"));
  for (const pid_t pid : printed_pids(job.output(), "parent")) {
    kill(parent_of(pid), SIGUSR1);  // the agent that mpirun or hvdrun started
    kill(pid, SIGUSR1);             // and its child, which watches the program
  }
  const Result result = job.finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] seen"), HasSubstr("[1] seen")));
}

TEST_P(Signals, OfJobControlStopAndContinueEveryRank) {
  // exec: a shell in vfork() does not stop while its child, which has stopped, has not called exec.
  Launch job({"-np", "2", "sh", "-c", "echo pid $$ is here; exec " + kSleep});
  ASSERT_TRUE(job.wait_for("[0] pid "));
  ASSERT_TRUE(job.wait_for("[1] pid"));
  const std::vector<pid_t> ranks = printed_pids(job.output());
  ASSERT_EQ(ranks.size(), 2u);
  const auto all_are = [&](bool stopped) {
    return comes_true([&] {
      const auto is_so = [&](pid_t pid) { return (state_of(pid) == 'T') == stopped; };
      return is_so(job.pid()) && is_so(ranks[0]) && is_so(ranks[1]);
    });
  };
  kill(job.pid(), SIGTSTP);
  EXPECT_TRUE(all_are(true));
  kill(job.pid(), SIGCONT);
  EXPECT_TRUE(all_are(false));
  kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.finish().code, 128 + SIGTERM);
  EXPECT_TRUE(all_gone(ranks));
}

// nohup, a shell in the background.
TEST_P(Signals, ThatAreIgnoredStayIgnored) {
  Launch job({"-np", "2", "sh", "-c", "echo ready; sleep 1; echo end"}, "", current_environment(),
             {"sh", "-c", "trap '' USR1; exec \"$@\"", "sh"});
  ASSERT_TRUE(job.wait_for("[0] ready"));
  ASSERT_TRUE(job.wait_for("[1] ready"));
  kill(job.pid(), SIGUSR1);
  EXPECT_EQ(job.finish().code, 0);
}

}  // namespace
}  // namespace hvd::runner
