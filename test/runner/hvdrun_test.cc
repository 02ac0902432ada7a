// The real hvdrun, with the real mpirun and without it, and small shell programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <tuple>

#include "runner/process.h"
#include "test/runner/launch.h"
#include "test/support/scoped_environment.h"
#include "test/support/temporary_folder.h"

namespace hvd::runner {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A path of this process: tests run side by side.
std::string temporary(const std::string& name) {
  return testing::TempDir() + "hvdrun_test_" + std::to_string(getpid()) + "_" + name;
}

// Every job is started by mpirun and by hvdrun itself.
class Hvdrun : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { environment_.set("HOROVOD_CONTROLLER", GetParam()); }

 private:
  ScopedEnvironment environment_;
};

INSTANTIATE_TEST_SUITE_P(By, Hvdrun, testing::Values("mpi", "gloo"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(Hvdrun, RunsOneRank) {
  const Result result = run_shell(1, std::string("echo rank ") + kRank);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "[0] rank 0\n");
  EXPECT_EQ(result.err, "");
}

TEST_P(Hvdrun, RunsMoreRanksThanCoresAndPrefixesTheirLines) {
  const Result result = run_shell(4, std::string("echo out; echo err ") + kRank + " >&2");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(sorted_lines(result.out),
              testing::ElementsAre("[0] out", "[1] out", "[2] out", "[3] out"));
  EXPECT_THAT(sorted_lines(result.err),
              testing::ElementsAre("[0] err 0", "[1] err 1", "[2] err 2", "[3] err 3"));
}

TEST_P(Hvdrun, EndsWithTheFirstFailingRanksNumberCodeAndLastLines) {
  const Result result = run_shell(4, std::string("echo before; if [ ") + kRank +
                                         " = 1 ]; then echo broken >&2; exit 3; fi; " + kSleep);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("hvdrun: rank 1 of 4 failed first"));
  EXPECT_THAT(result.err, HasSubstr("exit code 3"));
  const std::string block = result.err.substr(result.err.find("hvdrun: rank 1"));
  EXPECT_THAT(block, HasSubstr("    before\n"));
  EXPECT_THAT(block, HasSubstr("    broken\n"));
}

TEST_P(Hvdrun, SaysNothingOfTheLaunchersWhereRanksFailedByThemselves) {
  const Result result = run_shell(2, "exit 3");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, StartsWith("hvdrun: rank "));
}

TEST_P(Hvdrun, NamesTheSignalThatKilledARank) {
  const Result result = run_shell(4, std::string("[ ") + kRank + " = 2 ] && kill -9 $$; " + kSleep);
  EXPECT_EQ(result.code, 137);
  EXPECT_THAT(result.err, HasSubstr("rank 2 of 4 failed first"));
  EXPECT_THAT(result.err, HasSubstr("killed by SIGKILL"));
}

TEST_P(Hvdrun, KillsRanksThatIgnoreTheRequestToEnd) {
  const TemporaryFolder folder;
  const std::string script = "cd " + folder.path() + "; trap '' TERM; echo pid $$; touch " + kRank +
                             "; until [ -e 0 -a -e 1 ]; do sleep 0.05; done; [ " + kRank +
                             " = 1 ] && exit 9; while :; do sleep 1; done";
  const Result result = run_shell(2, script);
  EXPECT_EQ(result.code, 9);
  EXPECT_EQ(printed_pids(result.out).size(), 2u);
  EXPECT_TRUE(all_gone(printed_pids(result.out)));
}

TEST_P(Hvdrun, LeavesNoGrandchildrenBehind) {
  const Result result = run_shell(2, kSleep + " & echo pid $!; exit 0");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(printed_pids(result.out).size(), 2u);
  EXPECT_TRUE(all_gone(printed_pids(result.out)));
}

TEST_P(Hvdrun, WaitsForTheOthersWhenARankSucceedsEarly) {
  const Result result =
      run_shell(2, std::string("[ ") + kRank + " = 0 ] && exit 0; sleep 1; echo done");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "[1] done\n");
}

TEST_P(Hvdrun, SaysThatAProgramIsMissing) {
  const Result result = run({"-np", "2", "no-such-program"});
  EXPECT_EQ(result.code, 127);
  EXPECT_THAT(result.err, HasSubstr("could not start 'no-such-program': No such file"));
}

TEST_P(Hvdrun, SaysThatAProgramIsNotExecutable) {
  const std::string path = temporary("plain_file");
  std::ofstream(path) << "no program\n";
  const Result result = run({"-np", "2", path});
  EXPECT_EQ(result.code, 126);
  EXPECT_THAT(result.err, HasSubstr("could not start '" + path + "': Permission denied"));
  std::remove(path.c_str());
}

TEST_P(Hvdrun, GivesStandardInputToRankZeroOnly) {
  const Result result = run({"-np", "2", "cat"}, "one\ntwo\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "[0] one\n[0] two\n");
}

TEST_P(Hvdrun, SharesOutTheCoresAmongTheThreadsOfRanks) {
  Environment environment = current_environment();
  environment.erase("OMP_NUM_THREADS");
  const unsigned share = std::max(1U, std::thread::hardware_concurrency() / 2);
  const std::vector<std::string> command = {"-np", "2", "sh", "-c", "echo $OMP_NUM_THREADS"};
  const std::string line = "] " + std::to_string(share) + "\n";
  const auto printed = [&] { return Launch(command, "", environment).finish().out; };
  EXPECT_THAT(printed(), AllOf(HasSubstr("[0" + line), HasSubstr("[1" + line)));
  environment["OMP_NUM_THREADS"] = "7";
  EXPECT_THAT(printed(), AllOf(HasSubstr("[0] 7\n"), HasSubstr("[1] 7\n")));
}

TEST_P(Hvdrun, LosesNothingOfALotOfOutput) {
  const Result result = run({"-np", "2", "seq", "1", "100000"});
  EXPECT_EQ(result.code, 0) << result.err;
  // Without line ends: a line whose end is late, on a busy machine, is shown in two.
  std::string wanted;
  for (int number = 1; number <= 100'000; ++number) wanted += std::to_string(number);
  std::array<std::string, 2> seen;
  std::istringstream in(result.out);
  for (std::string line; std::getline(in, line);) {
    ASSERT_TRUE(line.starts_with("[0] ") || line.starts_with("[1] ")) << line;
    seen[line[1] == '1'] += line.substr(4);
  }
  EXPECT_TRUE(seen[0] == wanted) << seen[0].size();
  EXPECT_TRUE(seen[1] == wanted) << seen[1].size();
}

TEST_P(Hvdrun, ShowsLinesWhenTheyAreWrittenAndNotAtTheEnd) {
  Launch job({"-np", "1", "python3", "-c", "print('early'); import time; time.sleep(3600)"});
  EXPECT_TRUE(job.wait_for("[0] early\n"));
  kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.finish().code, 128 + SIGTERM);
}

TEST_P(Hvdrun, PassesTheProgramsOwnOptionsUntouched) {
  const Result result = run({"-np", "1", "--", "printf", "%s|", "-np", "--help", "a b", ""});
  EXPECT_EQ(result.out, "[0] -np|--help|a b||\n");
}

TEST_P(Hvdrun, SetsHorovodVariables) {
  const Result result =
      run({"-np", "2", "--timeline-filename", "t.json", "--fusion-threshold-mb", "2", "sh", "-c",
           "echo $HOROVOD_TIMELINE $HOROVOD_FUSION_THRESHOLD ${HVDRUN_AGENT-none}"});
  EXPECT_EQ(sorted_lines(result.out)[1], "[1] t.json 2097152 none");
}

TEST(HvdrunItself, SaysWhereASettingCameFrom) {
  const Result result = run({"-np", "1", "--cycle-time-ms", "2", "sh", "-c",
                             "echo $HOROVOD_CYCLE_TIME $HVD_SETTING_SOURCES"});
  EXPECT_EQ(result.out, "[0] 2 HOROVOD_CYCLE_TIME=hvdrun --cycle-time-ms\n");
}

TEST_P(Hvdrun, KeepsTheOutputOfEachRankInAFile) {
  const std::string folder = temporary("output");
  const Result result = run({"-np", "2", "--output-filename", folder, "sh", "-c",
                             std::string("echo out ") + kRank + "; echo err >&2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out)[1], "[1] out 1") << "and on the screen";
  std::stringstream out, err;
  out << std::ifstream(folder + "/rank.1/stdout").rdbuf();
  err << std::ifstream(folder + "/rank.1/stderr").rdbuf();
  EXPECT_EQ(out.str(), "out 1\n");
  EXPECT_EQ(err.str(), "err\n");
  std::filesystem::remove_all(folder);
}

TEST_P(Hvdrun, PutsTheTimeBeforeLinesWhenAsked) {
  const Result result = run({"-np", "1", "-prefix-timestamp", "echo", "x"});
  EXPECT_THAT(result.out, testing::MatchesRegex("\\[0\\] [0-9-]+ [0-9]+:[0-9]+:[0-9.]+ x\n"));
}

TEST(HvdrunItself, GivesUpOnRanksThatDoNotStart) {
  // An ssh that never comes through.
  const std::string agent = temporary("ssh");
  std::ofstream(agent) << "#!/bin/sh\n" + kSleep + "\n";
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
  const Result result = run({"-np", "1", "-H", "192.0.2.1:1", "--start-timeout", "1", "--mpi-args",
                             "--mca plm_rsh_agent " + agent, "true"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("not started after 1 s: rank 0 of 1; can this machine reach"));
  std::remove(agent.c_str());
}

// mpirun starts ssh in a process group of its own, and does not end it.
TEST(HvdrunItself, LeavesNoSshOfAJobThatNeverStarted) {
  const TemporaryFolder folder;
  const std::string agent = folder.file("ssh");
  const std::string note = folder.file("pids");
  folder.write("ssh", "#!/bin/sh\n" + kSleep + " &\necho pid $$ pid $! > " + note + ".new\nmv " +
                          note + ".new " + note + "\nwait\n");
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
  Launch job(
      {"-np", "1", "-H", "192.0.2.1:1", "--mpi-args", "--mca plm_rsh_agent " + agent, "true"});
  ASSERT_TRUE(comes_true([&] { return std::filesystem::exists(note); }));
  const std::vector<pid_t> ssh = printed_pids(folder.read("pids"));
  ASSERT_EQ(ssh.size(), 2u);
  kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.finish().code, 128 + SIGTERM);
  EXPECT_TRUE(all_gone(ssh));
}

TEST_P(Hvdrun, WarnsOfOptionsThatDoNothingAndGoesOn) {
  const Result result = run({"-np", "1", "--num-nccl-streams", "2", "echo", "x"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "[0] x\n");
  EXPECT_THAT(result.err, HasSubstr("hvdrun: warning: --num-nccl-streams does nothing"));
}

TEST_P(Hvdrun, TakesRanksAndMachinesFromSlurm) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  Environment environment = current_environment();
  environment["SLURM_JOB_NODELIST"] = host.data();
  environment["SLURM_TASKS_PER_NODE"] = "2";
  environment["SLURM_NTASKS"] = "2";
  const Result result = Launch({"echo", "x"}, "", environment).finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out), (std::vector<std::string>{"[0] x", "[1] x"}));
}

TEST(HvdrunItself, ShowsTheSettingsOfARank) {
  Environment environment = current_environment();
  environment["HOROVOD_CACHE_CAPACITY"] = "7";
  const Result result =
      Launch({"--cycle-time-ms", "2", "--help-settings"}, "", environment).finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("HOROVOD_CACHE_CAPACITY=7\n"));
  EXPECT_THAT(result.out, HasSubstr("from: environment; default: '4096'\n"));
  EXPECT_THAT(result.out, HasSubstr("HOROVOD_CYCLE_TIME=2\n"));
  EXPECT_THAT(result.out, HasSubstr("value: that of rank 0\n    from: hvdrun --cycle-time-ms"));
  EXPECT_THAT(result.out, HasSubstr("value: the same on all ranks\n"));
}

TEST(HvdrunItself, TellsRanksTheirPlaceByHorovodsNames) {
  const Result result = run(
      {"-np", "3", "--gloo", "sh", "-c", "echo $HOROVOD_RANK $HOROVOD_SIZE $HOROVOD_LOCAL_SIZE"});
  EXPECT_EQ(sorted_lines(result.out),
            (std::vector<std::string>{"[0] 0 3 3", "[1] 1 3 3", "[2] 2 3 3"}));
}

TEST_P(Hvdrun, TellsRanksTheirPlaceByTheNamesOfPytorchsLauncher) {
  const Result result = run({"-np", "2", "sh", "-c",
                             "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK "
                             "$MASTER_ADDR:$MASTER_PORT"});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string port = result.out.substr(result.out.rfind(':') + 1);
  EXPECT_EQ(sorted_lines(result.out),
            sorted_lines("[0] 0 2 0 2 0 127.0.0.1:" + port + "[1] 1 2 1 2 0 127.0.0.1:" + port));
  EXPECT_GT(std::stoi(port), 1023);
}

TEST(HvdrunItself, PrintsThePlanWhenAsked) {
  const Result result = run({"-np", "1", "--verbose", "true"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("hvdrun agent 0\n"));
  const Result by_mpirun = run({"-np", "1", "--verbose", "--mpi", "true"});
  EXPECT_EQ(by_mpirun.code, 0);
  EXPECT_THAT(by_mpirun.err, HasSubstr("mpirun -np 1"));
  EXPECT_THAT(by_mpirun.err, HasSubstr("--bind-to none"));
}

class ForwardedSignal : public SignalCase {};

TEST_P(ForwardedSignal, ReachesEveryRankAndBecomesTheExitCode) {
  const int number = std::get<1>(GetParam());
  Launch job({"-np", "2", "python3", "-c",
              "import os, signal, time\n"
              "def got(signal, frame): print('got', signal); os._exit(0)\n"
              "for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(s, got)\n"
              "print('ready')\n"
              "while True: time.sleep(0.05)"});
  ASSERT_TRUE(job.wait_for("[0] ready"));
  ASSERT_TRUE(job.wait_for("[1] ready"));
  kill(job.pid(), number);
  const Result result = job.finish();
  EXPECT_EQ(result.code, 128 + number);
  EXPECT_THAT(result.out, HasSubstr("[0] got " + std::to_string(number)));
  EXPECT_THAT(result.out, HasSubstr("[1] got " + std::to_string(number)));
  EXPECT_THAT(result.err, HasSubstr("hvdrun: stopped by SIG"));
}

INSTANTIATE_TEST_SUITE_P(Each, ForwardedSignal,
                         testing::Combine(testing::Values("mpi", "gloo"),
                                          testing::Values(SIGINT, SIGTERM, SIGHUP)));

// SIGKILL of hvdrun and of mpirun: nobody can clean up for them.
TEST_P(Hvdrun, LeavesNothingRunningWhenItIsKilled) {
  Launch job({"-np", "3", "sh", "-c", kSleep + " & echo pid $! pid $$; wait"});
  for (const char* rank : {"[0]", "[1]", "[2]"}) ASSERT_TRUE(job.wait_for(rank));
  kill(job.pid(), SIGKILL);
  const Result result = job.finish();
  EXPECT_EQ(printed_pids(result.out).size(), 6u);
  EXPECT_TRUE(all_gone(printed_pids(result.out)));
}

TEST_P(Hvdrun, EndsTheRanksWhenWhatItStartedIsKilled) {
  Launch job({"-np", "2", "sh", "-c", "echo pid $$; " + kSleep});
  ASSERT_TRUE(job.wait_for("[0]"));
  ASSERT_TRUE(job.wait_for("[1]"));
  std::ifstream children("/proc/" + std::to_string(job.pid()) + "/task/" +
                         std::to_string(job.pid()) + "/children");
  pid_t first = 0;
  ASSERT_TRUE(children >> first);
  kill(first, SIGKILL);
  const Result result = job.finish();
  EXPECT_EQ(result.code, 137) << result.err;
  EXPECT_TRUE(all_gone(printed_pids(result.out)));
}

TEST_P(Hvdrun, StopsWhenItsReaderLeaves) {
  Launch job({"-np", "2", "yes"});
  ASSERT_TRUE(job.wait_for("y\n"));
  job.stop_reading();
  EXPECT_EQ(job.finish().code, 128 + SIGPIPE);
}

// With standard output and standard error at the given places.
Result run_redirected(const std::string& redirection, std::vector<std::string> arguments) {
  return Launch(std::move(arguments), "", current_environment(),
                {"sh", "-c", "exec \"$@\" " + redirection, "sh"})
      .finish();
}

TEST_P(Hvdrun, SaysThatItsOutputHasNoRoom) {
  for (const std::string script : {"echo short", "yes"}) {
    const Result result = run_redirected(">/dev/full", {"-np", "2", "sh", "-c", script});
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr("hvdrun: cannot write standard output: No space left"));
  }
  EXPECT_EQ(run_redirected("2>/dev/full", {"-np", "1", "sh", "-c", "echo x >&2"}).code, 1);
}

TEST(HvdrunItself, SaysThatItsHelpHasNoRoom) {
  const Result result = run_redirected(">/dev/full", {"--help"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("hvdrun: cannot write standard output: No space left"));
}

TEST_P(Hvdrun, EndsWhileWhatAProgramLeftBehindWrites) {
  const std::string daemon = "setsid sh -c 'while echo x; do sleep 0.1; done' & ";
  const Result result = run_shell(1, daemon + "sleep 0.3; seq 100000");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[0] 100000\n"));
}

TEST_P(Hvdrun, SeesChildrenEndWhereTheirSignalWasIgnored) {
  const std::vector<std::string> ignoring = {"env", "--ignore-signal=CHLD"};
  EXPECT_EQ(Launch({"-np", "2", "true"}, "", current_environment(), ignoring).finish().code, 0);
}

// A pager that nobody scrolls, or Ctrl-S.
TEST_P(Hvdrun, NoticesAFailureWhileItsReaderDoesNotRead) {
  const TemporaryFolder folder;
  Launch job({"-np", "2", "sh", "-c",
              "cd " + folder.path() + "; if [ " + kRank +
                  " = 0 ]; then echo pid $$ > pid; exec yes; fi; "
                  "until [ -e full ]; do sleep 0.05; done; exit 3"});
  ASSERT_TRUE(comes_true([&] { return job.output_is_full(); }));
  const std::vector<pid_t> writer = printed_pids(folder.read("pid"));
  ASSERT_EQ(writer.size(), 1u);
  folder.write("full", "");
  EXPECT_TRUE(all_gone(writer)) << "it is stopped although hvdrun cannot write";
  const Result result = job.finish();
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("hvdrun: rank 1 of 2 failed first"));
}

TEST_P(Hvdrun, EndsOnASignalWhileItsReaderDoesNotRead) {
  Launch job({"-np", "2", "yes"});
  ASSERT_TRUE(comes_true([&] { return job.output_is_full(); }));
  kill(job.pid(), SIGTERM);
  EXPECT_TRUE(all_gone({job.pid()}));
  EXPECT_EQ(job.finish().code, 128 + SIGTERM);
}

TEST_P(Hvdrun, RunsWithClosedStandardStreams) {
  EXPECT_EQ(std::system("'" HVDRUN_PATH "' -np 2 true <&- >&- 2>&-"), 0);
}

TEST(HvdrunItself, SaysHowToInstallMpirun) {
  Environment environment = current_environment();
  environment["PATH"] = "/nonexistent";
  const Result result = Launch({"-np", "1", "--mpi", "/bin/true"}, "", environment).finish();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("apt-get install openmpi-bin"));
  const Result by_ssh =
      Launch({"-np", "1", "-H", "another-host:1", "/bin/true"}, "", environment).finish();
  EXPECT_EQ(by_ssh.code, 1);
  EXPECT_THAT(by_ssh.err, HasSubstr("could not start ssh: No such file"));
}

TEST(HvdrunItself, NeedsNoMpirunOnOneMachine) {
  Environment environment = current_environment();
  environment["PATH"] = "/nonexistent";
  const Result result = Launch({"-np", "2", "/bin/echo", "x"}, "", environment).finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out), (std::vector<std::string>{"[0] x", "[1] x"}));
}

TEST(HvdrunItself, NamesAnUnknownMachineAndHidesWhatMpirunMakesOfIt) {
  std::vector<std::string> command = {"-np",   "2",   "-H", "localhost:1,no-such-host.invalid:1",
                                      "--mpi", "true"};
  const Result result = run(command);
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, Not(HasSubstr("[launcher] ")));
  EXPECT_THAT(result.err, StartsWith("hvdrun: mpirun failed with exit code"));
  EXPECT_THAT(result.err, HasSubstr("--verbose shows its messages\n"));
  EXPECT_THAT(result.err, HasSubstr("hvdrun: this machine knows no address of no-such-host.invalid "
                                    "("));
  EXPECT_THAT(result.err, HasSubstr("correct the name after -H"));
  EXPECT_THAT(result.err, Not(HasSubstr("address of localhost")));
  command.insert(command.begin(), "--verbose");
  EXPECT_THAT(run(command).err, HasSubstr("[launcher] "));
}

TEST(HvdrunItself, ShowsMpirunsOwnTroublesWhereItKnowsNoBetter) {
  const Result result =
      run({"-np", "2", "--mpi", "--mpi-args", "--no-such-option-of-mpirun", "true"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("[launcher] "));
  EXPECT_THAT(result.err, HasSubstr("no-such-option-of-mpirun"));
  EXPECT_THAT(result.err, HasSubstr("hvdrun: mpirun failed with exit code"));
  EXPECT_THAT(result.err, EndsWith("; its messages are above\n"
                                   "hvdrun: without --mpi, hvdrun starts the ranks of one "
                                   "machine itself\n"));
}

TEST(HvdrunItself, RefusesABadCommandLineWithCodeTwo) {
  const Result result = run({"-np", "0", "true"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, StartsWith("hvdrun: -np: '0'"));
  EXPECT_EQ(result.out, "");
}

TEST(HvdrunItself, TeachesAndTellsItsVersion) {
  EXPECT_THAT(run({"--help"}).out, HasSubstr("hvdrun -np 2 python train.py"));
  EXPECT_THAT(run({"--help-all"}).out, HasSubstr("Examples"));
  EXPECT_THAT(run({"--version"}).out, HasSubstr("horovod_cpp"));
}

TEST(HvdrunItself, ListsWhatThisBuildHasAndCanUse) {
  const Result result = run({"-cb"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, testing::ContainsRegex("HVD_MPI +o"));
  EXPECT_THAT(result.out, testing::ContainsRegex("\\[x\\] mpirun +/"));
  EXPECT_THAT(result.out, testing::ContainsRegex("\\[x\\] self"));
  EXPECT_THAT(result.out, testing::ContainsRegex("\\[.\\] mpi"));
}

TEST(HvdrunItself, RefusesToBeAnAgentOfNobody) {
  const Result result = run({"agent"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("hvdrun --launcher none prints it"));
}

}  // namespace
}  // namespace hvd::runner
