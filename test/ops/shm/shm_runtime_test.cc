// The contract of Runtime over shared memory: threads as ranks, and processes where ranks die.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <new>
#include <tuple>
#include <vector>

#include "test/ops/shm/shm_world.h"
#include "test/support/run_ranks.h"
#include "test/support/runtime_contract.h"

namespace hvd::engine::test {
namespace {

using Parameters = std::tuple<RuntimeCase, int>;

std::string name_of_case(const testing::TestParamInfo<Parameters>& info) {
  return std::get<0>(info.param).name + "_" + std::to_string(std::get<1>(info.param));
}

class ShmRuntimeContract : public testing::TestWithParam<Parameters> {};

TEST_P(ShmRuntimeContract, Holds) {
  const auto& [contract, size] = GetParam();
  const ShmWorld world(size);
  const std::vector<ProcessId> processes(static_cast<std::size_t>(size), this_process());
  run_ranks(size, [&, &tested = contract](Rank rank) {
    run_case(tested, world.control_plane(rank, processes), world.collective(rank));
  });
}

INSTANTIATE_TEST_SUITE_P(All, ShmRuntimeContract,
                         testing::Combine(testing::ValuesIn(runtime_contract()),
                                          testing::Values(2, 3, 5)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Leaving, ShmRuntimeContract,
                         testing::Combine(testing::ValuesIn(runtime_leaving_contract()),
                                          testing::Values(2, 4)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Failures, ShmRuntimeContract,
                         testing::Combine(testing::ValuesIn(runtime_failure_contract()),
                                          testing::Values(2, 4)),
                         name_of_case);

constexpr int kMostRanks = 8;

// What forked ranks tell each other.
struct Meeting {
  std::atomic<int> here{0};
  std::atomic<int> ready{0};  // they have their ports
  ProcessId processes[kMostRanks];
};

// Ends with 0 unless something failed.
[[noreturn]] void be_a_rank(const RuntimeCase& contract, const ShmWorld& world, Rank rank,
                            Meeting& meeting) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  meeting.processes[rank] = this_process();
  ++meeting.here;
  while (meeting.here != world.size()) usleep(1000);
  auto control = world.control_plane(rank, {meeting.processes, meeting.processes + world.size()});
  auto collective = world.collective(rank);
  ++meeting.ready;
  while (meeting.ready != world.size()) usleep(1000);  // none dies before the others know it
  run_case(contract, std::move(control), std::move(collective));
  std::fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

class ShmDeathContract : public testing::TestWithParam<Parameters> {};

TEST_P(ShmDeathContract, Holds) {
  const auto& [contract, size] = GetParam();
  const ShmWorld world(size);
  void* page =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto& meeting = *new (page) Meeting;
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) be_a_rank(contract, world, rank, meeting);
    children.push_back(child);
  }
  for (Rank rank = 0; rank < size; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(children[static_cast<std::size_t>(rank)], &status, 0),
              children[static_cast<std::size_t>(rank)]);
    if (rank == size - 1) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank;
    }
  }
  munmap(page, sizeof(Meeting));
}

INSTANTIATE_TEST_SUITE_P(All, ShmDeathContract,
                         testing::Combine(testing::ValuesIn(runtime_death_contract()),
                                          testing::Values(2, 3, 5)),
                         name_of_case);

}  // namespace
}  // namespace hvd::engine::test
