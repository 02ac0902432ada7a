// Process sets for which a rank of a real backend has no memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "ops/shm/shm_collective.h"
#include "ops/shm/shm_control_plane.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/failing_fallocate.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using engine::test::FailingFallocate;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The ranks of one host, one a thread, that meet in shared memory.
class WorldsInSharedMemory {
 public:
  explicit WorldsInSharedMemory(int size, const engine::ShmLimits& limits = {})
      : size_(size), limits_(limits) {
    const engine::DataSegment::Needs needs = engine::DataSegment::needs(size, limits);
    memory_ = engine::SharedMemory::create(needs.bytes, needs.reserved);
    for (int rank = 0; rank < size; ++rank) files_.push_back(engine::make_memory_file());
  }

  std::shared_ptr<World> of(Rank rank) const {
    const std::vector<std::string> host(static_cast<std::size_t>(size_), "node7");
    std::vector<engine::ProcessHandle> processes;
    std::vector<UniqueFd> files;
    for (int r = 0; r < size_; ++r) {
      processes.emplace_back(engine::this_process());
      files.emplace_back(fcntl(files_[static_cast<std::size_t>(r)].get(), F_DUPFD_CLOEXEC, 0));
    }
    std::vector<std::unique_ptr<engine::Collective>> collectives;
    collectives.push_back(std::make_unique<engine::ShmCollective>(
        std::make_unique<engine::DataSegment>(memory_, size_, rank, limits_),
        engine::ArenaFiles(std::move(files), rank)));
    auto control = std::make_unique<engine::ShmControlPlane>(engine::place(rank, host, host),
                                                             memory_, processes);
    return std::make_shared<World>(std::make_unique<engine::Runtime>(
        std::move(control), std::move(collectives), Config{}, engine::ObserverList{}));
  }

 private:
  int size_;
  engine::ShmLimits limits_;
  std::shared_ptr<engine::SharedMemory> memory_;
  std::vector<UniqueFd> files_;
};

double sum_of_ones(const ProcessSet& set) {
  return allreduce(Tensor::full({1}, 1), {.op = ReduceOp::kSum, .process_set = set}).item();
}

// Rank 1 is the lowest of the set, and reserves for it: the others learn of it.
TEST(ProcessSetMemory, ThatIsMissingFailsTheCallOnAllRanksAndNothingElse) {
  const WorldsInSharedMemory worlds(3);
  std::optional<FailingFallocate> full(ENOSPC);
  engine::test::run_ranks(3, [&](Rank rank) {
    const auto world = worlds.of(rank);
    const ProcessSet everyone = world->global_process_set();
    EXPECT_THAT(message_of<UnsupportedError>([&] {
                  world->add_process_set({1, 2});
                }),
                AllOf(HasSubstr("add_process_set[1, 2]"), HasSubstr("rank 1: "),
                      HasSubstr("No space left on device")));
    EXPECT_THAT(world->process_set_ids(), ElementsAre(0));
    EXPECT_EQ(sum_of_ones(everyone), 3);
    barrier({.process_set = everyone});
    if (rank == 0) full.reset();
    barrier({.process_set = everyone});
    const ProcessSet set = world->add_process_set({1, 2});
    EXPECT_EQ(set.id(), 2u);
    if (set.included()) {
      EXPECT_EQ(sum_of_ones(set), 2);
    }
    barrier({.process_set = world->global_process_set()});
    world->shutdown();
  });
}

TEST(ProcessSetMemory, MoreSetsThanThereArePlacesForAreRefusedUntilOneIsRemoved) {
  const WorldsInSharedMemory worlds(2, {.sets = 3});
  engine::test::run_ranks(2, [&](Rank rank) {
    const auto world = worlds.of(rank);
    std::vector<ProcessSet> sets;
    for (int i = 0; i < 3; ++i) sets.push_back(world->add_process_set({0, 1}));
    EXPECT_THAT(message_of<UnsupportedError>([&] {
                  world->add_process_set({0, 1});
                }),
                AllOf(HasSubstr("rank 0: more than 3 process sets"), HasSubstr("remove")));
    EXPECT_EQ(sum_of_ones(sets[2]), 2);
    world->remove_process_set(sets[0]);
    EXPECT_EQ(sum_of_ones(world->add_process_set({0, 1})), 2);
    barrier({.process_set = world->global_process_set()});
    world->shutdown();
  });
}

}  // namespace
}  // namespace hvd
