// hvdrun and its agents among unauthenticated peers, and on hosts that are gone: the real programs,
// and this test on the other end of their connections.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "ops/net/tcp_socket.h"
#include "runner/link/connection.h"
#include "runner/link/wire.h"
#include "runner/process.h"
#include "test/runner/launch.h"
#include "test/support/temporary_folder.h"

namespace hvd::runner {
namespace {

using std::chrono::hours;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A TCP socket of a process.
struct Socket {
  int fd = -1;
  std::string address;  // its own, as /proc has it: "0100007F"
  std::uint16_t port = 0;
  bool listens = false;
};

std::vector<Socket> sockets_of(pid_t pid) {
  std::map<std::string, int> inodes;  // "socket:[123]"
  const std::string process = "/proc/" + std::to_string(pid);
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(process + "/fd", gone)) {
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone) inodes.emplace(target.string(), std::stoi(entry.path().filename().string()));
  }
  std::vector<Socket> sockets;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream lines(process + table);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, skip, inode;
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 6; ++i) words >> inode;
      const auto found = inodes.find("socket:[" + inode + "]");
      if (found == inodes.end()) continue;
      const std::size_t colon = local.find(':');
      const auto port =
          static_cast<std::uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16));
      sockets.push_back({found->second, local.substr(0, colon), port, state == "0A"});
    }
  }
  return sockets;
}

std::vector<Socket> listening(pid_t pid) {
  std::vector<Socket> sockets = sockets_of(pid);
  std::erase_if(sockets, [](const Socket& socket) { return !socket.listens; });
  return sockets;
}

std::vector<pid_t> descendants(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  std::vector<pid_t> all;
  for (pid_t child = 0; file >> child;) {
    all.push_back(child);
    const auto theirs = descendants(child);
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

// As if the host at the other end of this connection of `pid` had lost its power: nothing that is
// sent to it arrives any more.
void cut(pid_t pid, const Socket& socket) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const UniqueFd ours(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), socket.fd, 0)));
  ASSERT_TRUE(ours) << std::strerror(errno);
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop};
  ASSERT_EQ(setsockopt(ours.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

TEST(HvdrunOnANetwork, StartsAJobWhoseDescriptorsOthersTake) {
  // mpirun waits until the unauthenticated peers are there.
  const TemporaryFolder folder;
  Environment environment = current_environment();
  const std::string mpirun = find_in_path("mpirun", environment["PATH"]);
  ASSERT_FALSE(mpirun.empty());
  folder.write("mpirun", "#!/bin/sh\nuntil [ -e " + folder.file("go") +
                             " ]; do sleep 0.05; done\nexec " + mpirun + " \"$@\"\n");
  std::filesystem::permissions(folder.file("mpirun"), std::filesystem::perms::owner_all);
  environment["PATH"] = folder.path() + ":" + environment["PATH"];
  environment["HOROVOD_CONTROLLER"] = "mpi";
  Launch job({"-np", "2", "echo", "x"}, "", environment,
             {"sh", "-c", "ulimit -n 128; exec \"$0\" \"$@\""});
  std::vector<Socket> doors;
  ASSERT_TRUE(comes_true([&] { return (doors = listening(job.pid())).size() == 1; }));
  std::vector<engine::TcpDescriptor> peers;
  for (int i = 0; i < 300; ++i)
    peers.push_back(engine::connect_to({"127.0.0.1", doors[0].port}, hours(1)));
  folder.write("go", "");
  const Result result = job.finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out), (std::vector<std::string>{"[0] x", "[1] x"}));
}

TEST(HvdrunOnANetwork, ListensOnTheChosenInterfaceOnly) {
  const TemporaryFolder folder;
  folder.write("ssh", "#!/bin/sh\nexec " + kSleep + "\n");  // that never comes through
  std::filesystem::permissions(folder.file("ssh"), std::filesystem::perms::owner_all);
  Launch job({"-np", "1", "-H", "192.0.2.1:1", "--network-interfaces", "lo", "--launcher",
              "exec:" + folder.file("ssh"), "true"});
  std::vector<Socket> doors;
  ASSERT_TRUE(comes_true([&] { return !(doors = listening(job.pid())).empty(); }));
  for (const Socket& door : doors) {
    EXPECT_THAT(door.address, testing::AnyOf("0100007F", HasSubstr("01000000")));
  }
  kill(job.pid(), SIGTERM);
  job.finish();
}

TEST(HvdrunOnANetwork, NamesTheInterfacesWhereTheChosenOneIsNotThere) {
  const Result result =
      Launch({"-np", "1", "-H", "192.0.2.1:1", "--network-interfaces", "nosuch0", "true"}).finish();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("nosuch0"));
  EXPECT_THAT(result.err, HasSubstr("lo"));
}

// Whoever has the port of hvdrun on a wrong machine must not become the agent of a rank.
TEST(Agent, DoesNotTellItsKeyToWhoeverListens) {
  const engine::TcpListener impostor = engine::listen_on("127.0.0.1");
  const std::string key = "0123456789abcdef0123456789abcdef";
  Environment environment = current_environment();
  environment["HVDRUN_AGENT"] = to_string(AgentAddress{key, {impostor.at}});
  environment["HOROVOD_START_TIMEOUT"] = "1";
  Launch agent({"agent", "0"}, "", environment);
  engine::TcpDescriptor caller;
  ASSERT_TRUE(comes_true([&] {
    caller = engine::accept_from(impostor.socket.get(), hours(1));
    return static_cast<bool>(caller);
  }));
  std::string said;
  ASSERT_TRUE(comes_true([&] {
    std::array<char, 256> buffer{};
    const ssize_t got = recv(caller.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) said.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
  }));
  EXPECT_THAT(said, Not(HasSubstr(key.substr(0, 8))));
  // Nor does it do what a listener wants that cannot prove to be hvdrun.
  Connection(engine::TcpDescriptor(dup(caller.get()))).say(Stop{SIGKILL});
  const Result result = agent.finish();
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("cannot reach hvdrun at 127.0.0.1:"));
  EXPECT_THAT(result.err, Not(HasSubstr(key)));
}

// What starts agents may keep hvdrun's standard input to itself.
TEST(Agent, DoesNotWaitForeverForItsAddress) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.file("silent").c_str(), 0600), 0);
  const std::vector<std::string> through = {"sh", "-c",
                                            "exec \"$0\" \"$@\" 0<>" + folder.file("silent")};
  Environment environment = current_environment();
  Launch asked({"agent", "0"}, "", environment, through);
  kill(asked.pid(), SIGTERM);
  environment["HOROVOD_START_TIMEOUT"] = "1";
  const Result result = Launch({"agent", "0"}, "", environment, through).finish();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("hvdrun's address did not arrive on standard input"));
  asked.finish();
}

TEST(HvdrunAndAGoneHost, EndOnBothSides) {
  const TemporaryFolder folder;
  Environment environment = current_environment();
  environment["HVD_LINK_TIMEOUT_SECONDS"] = "1";
  Launch job({"-np", "2", "--gloo", "sh", "-c",
              "echo pid $$ > " + folder.path() + "/$HOROVOD_RANK.new; cd " + folder.path() +
                  "; mv $HOROVOD_RANK.new $HOROVOD_RANK; exec " + kSleep},
             "", environment);
  for (const char* rank : {"0", "1"}) {
    ASSERT_TRUE(comes_true([&] { return std::filesystem::exists(folder.file(rank)); }));
  }
  pid_t agent = -1;
  for (const pid_t each : descendants(job.pid())) {
    const std::vector<Socket> sockets = sockets_of(each);
    if (sockets.empty()) continue;
    agent = each;
    cut(each, sockets[0]);
    break;
  }
  ASSERT_GT(agent, 0);
  const Result result = job.finish();
  EXPECT_EQ(result.code, 1);
  // Whichever end notices first.
  EXPECT_THAT(result.err, testing::AnyOf(HasSubstr("its hvdrun agent vanished"),
                                         HasSubstr("its hvdrun agent did not answer for"),
                                         HasSubstr("an agent of hvdrun failed with exit code 1")));
  EXPECT_TRUE(all_gone({agent}));
  EXPECT_TRUE(all_gone(printed_pids(folder.read("0") + folder.read("1"))));
}

}  // namespace
}  // namespace hvd::runner
