#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "core/config/config.h"
#include "core/config/launch_info.h"
#include "core/ports/rendezvous.h"
#include "test/mpi/mpi_world.h"
#include "test/support/collective_contract.h"
#include "test/support/control_plane_contract.h"
#include "test/support/scoped_environment.h"

namespace hvd::engine::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Topology here() {
  return ports().control->topology();
}

Collective& collective() {
  return *ports().collectives.front();
}

// Returns when every rank is here: what all of them contribute to cannot end before.
void meet() {
  const std::int64_t mine = here().rank;
  std::vector<std::int64_t> all(static_cast<std::size_t>(here().size));
  finish(*collective().exchange({&mine, 1}, all), collective());
  for (std::size_t r = 0; r < all.size(); ++r) ASSERT_EQ(all[r], static_cast<std::int64_t>(r));
}

class ControlPlaneContract : public ::testing::TestWithParam<ControlPlaneCase> {};

TEST_P(ControlPlaneContract, Holds) {
  ASSERT_NO_FATAL_FAILURE(meet());
  GetParam().run(*ports().control, here().rank, here().size);
}

INSTANTIATE_TEST_SUITE_P(Connect, ControlPlaneContract,
                         ::testing::ValuesIn(control_plane_contract()),
                         [](const auto& instance) { return instance.param.name; });

class CollectiveContract : public ::testing::TestWithParam<CollectiveCase> {};

TEST_P(CollectiveContract, Holds) {
  GetParam().run(collective(), here().rank, here().size);
}

INSTANTIATE_TEST_SUITE_P(Connect, CollectiveContract, ::testing::ValuesIn(collective_contract()),
                         [](const auto& instance) { return instance.param.name; });

TEST(Connect, SeesTheWorldThatTheLauncherStarted) {
  const LaunchInfo launch = read_launch_info();
  ASSERT_TRUE(launch.size.has_value()) << "start this program with mpirun or hosts/contract.sh";
  EXPECT_EQ(here().rank, *launch.rank);
  EXPECT_EQ(here().size, *launch.size);
  if (!read_config().hostname.empty()) {
    EXPECT_EQ(ports().control->host_name(here().rank), read_config().hostname);
  } else if (launch.local_size) {
    EXPECT_EQ(here().local_size, *launch.local_size);
  }
  EXPECT_EQ(ports().mpi_threads.has_value(), launch.speaks_mpi && here().size > 1);
}

TEST(Connect, LeavesAbortToTheProgram) {
  struct sigaction at_abort {};
  sigaction(SIGABRT, nullptr, &at_abort);
  EXPECT_EQ(at_abort.sa_handler, SIG_DFL);
}

TEST(Connect, AsksToBePolledOnlyWhileACollectiveRunsThatRingsNobody) {
  if (here().size == 1) GTEST_SKIP() << "a world of one never waits";
  EXPECT_FALSE(collective().poll_interval().has_value()) << "idle";
  const bool one_host = here().local_size == here().size;
  if (one_host || read_config().control_plane != "mpi") {
    EXPECT_FALSE(ports().control->prepare_sleep().has_value()) << "it rings";
  }
  const std::int64_t mine = 0;
  std::vector<std::int64_t> all(static_cast<std::size_t>(here().size));
  const auto operation = collective().exchange({&mine, 1}, all);
  const bool polled = !one_host || read_config().cpu_operations != "shm";
  ASSERT_EQ(collective().poll_interval().has_value(), polled);
  EXPECT_LE(collective().poll_interval().value_or(Duration::zero()),
            std::chrono::microseconds(100));
  finish(*operation, collective());
}

TEST(Connect, LeavesNoNameInSharedMemory) {
  ASSERT_NO_FATAL_FAILURE(meet());
  const std::string mine = "hvd-" + std::to_string(getpid()) + "-";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(mine)) << entry.path();
  }
}

TEST(Connect, WorksTwentyTimesInOneProcess) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_NO_THROW(reconnect()) << "round " << round;
    ASSERT_NO_FATAL_FAILURE(meet()) << "round " << round;
    if (here().size == 1) continue;
    // A token round the ring: mail of an earlier round would be taken for it.
    const Bytes token = {static_cast<std::byte>(round)};
    if (here().rank == 0) ports().control->send(1, token);
    EXPECT_EQ(next_message(*ports().control).bytes, token);
    if (here().rank != 0) ports().control->send((here().rank + 1) % here().size, token);
  }
}

std::string error_of_connecting() {
  try {
    connect(read_config());
  } catch (const UnsupportedError& error) {
    return error.what();
  }
  return "";
}

TEST(Connect, AWorldThatMpiDoesNotSeeIsAnError) {
  if (!ports().mpi_threads) GTEST_SKIP() << "MPI does not connect this world";
  const std::string size = std::to_string(here().size);
  ScopedEnvironment other;
  other.set("OMPI_COMM_WORLD_SIZE", "64");
  const std::string text = error_of_connecting();
  EXPECT_THAT(text, AllOf(HasSubstr("of 64"), HasSubstr("of " + size), HasSubstr("hvdrun")));
}

}  // namespace
}  // namespace hvd::engine::test
