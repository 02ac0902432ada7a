// Process sets of running jobs.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using test::add_set;
using test::in_set;
using test::remove_set;
using test::run_ranks;
using test::shared;
using test::SimRanks;

ProcessSetId added(Runtime& runtime, const std::string& name, const std::vector<Rank>& ranks) {
  return static_cast<ProcessSetId>(runtime.submit(add_set(name, ranks)).wait().number);
}

// What is held up does not move until it is let go.
class HeldOperation final : public Operation {
 public:
  HeldOperation(std::unique_ptr<Operation> inner, const std::atomic<bool>& held)
      : inner_(std::move(inner)), held_(held) {}
  bool advance() override { return !held_ && inner_->advance(); }

 private:
  std::unique_ptr<Operation> inner_;
  const std::atomic<bool>& held_;
};

struct Watch {
  std::atomic<bool> held{false};
  std::atomic<int> subsets{0};  // alive
};

class WatchedSubset final : public test::ForwardingCollective {
 public:
  WatchedSubset(std::unique_ptr<Collective> inner, Watch& watch, bool holds)
      : ForwardingCollective(std::move(inner)), watch_(watch), holds_(holds) {
    ++watch_.subsets;
  }
  ~WatchedSubset() override { --watch_.subsets; }
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override {
    auto operation = ForwardingCollective::exchange(mine, all);
    if (!holds_) return operation;
    return std::make_unique<HeldOperation>(std::move(operation), watch_.held);
  }

 private:
  Watch& watch_;
  const bool holds_;
};

// The first process set's exchanges are held up while `watch` says so.
class WatchedCollective final : public test::ForwardingCollective {
 public:
  WatchedCollective(std::unique_ptr<Collective> inner, Watch& watch)
      : ForwardingCollective(std::move(inner)), watch_(watch) {}
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override {
    return std::make_unique<WatchedSubset>(ForwardingCollective::subset(number, ranks), watch_,
                                           made_++ == 0);
  }

 private:
  Watch& watch_;
  int made_ = 0;
};

// Rank 0 is in both: what blocks one of them there holds up neither the other nor the world.
TEST(RuntimeProcessSets, DoNotWaitForEachOther) {
  Watch watch;
  SimRanks ranks(3, {}, {}, [&](Rank rank, std::unique_ptr<Collective> inner) {
    if (rank != 0) return inner;
    return std::unique_ptr<Collective>(
        std::make_unique<WatchedCollective>(std::move(inner), watch));
  });
  watch.held = true;
  std::vector<Handle> held(2);
  run_ranks(3, [&](Rank rank) {
    const ProcessSetId first = added(ranks[rank], "first", {0, 1});
    const ProcessSetId second = added(ranks[rank], "second", {0, 2});
    if (rank != 2) {
      held[static_cast<std::size_t>(rank)] =
          ranks[rank].submit(in_set(first, test::allgather("held", shared<float>({1}), 1)));
    }
    for (int i = 0; i < 10; ++i) {
      const std::string name = "x" + std::to_string(i);
      ranks[rank].submit(test::allgather(name, shared<float>({1}), 1)).wait();
      if (rank == 1) continue;
      ranks[rank].submit(in_set(second, test::allgather(name, shared<float>({1}), 1))).wait();
    }
  });
  EXPECT_FALSE(held[0].done());
  watch.held = false;
  ranks[0].submit(test::send(shared<float>({1}), 0, 0));  // wakes the coordinator
  EXPECT_EQ(test::gathered<float>(held[0].wait()), (std::vector<float>{1, 1}));
  held[1].wait();
}

TEST(RuntimeProcessSets, LetTheirCollectivesGoWhenTheyAreRemoved) {
  Watch watch;
  SimRanks ranks(2, {}, {}, [&](Rank rank, std::unique_ptr<Collective> inner) {
    if (rank != 0) return inner;
    return std::unique_ptr<Collective>(
        std::make_unique<WatchedCollective>(std::move(inner), watch));
  });
  run_ranks(2, [&](Rank rank) {
    const ProcessSetId other = added(ranks[rank], "other", {1});
    const ProcessSetId both = added(ranks[rank], "both", {0, 1});
    if (rank == 0) {
      EXPECT_EQ(watch.subsets, 1) << "only of sets that have this rank";
    }
    ranks[rank].submit(in_set(both, test::allgather("x", shared<float>({1}), 1))).wait();
    ranks[rank].submit(remove_set("away", both)).wait();
    ranks[rank].submit(remove_set("away too", other)).wait();
    ranks[rank].submit(test::barrier("later")).wait();
    if (rank == 0) {
      EXPECT_EQ(watch.subsets, 0);
    }
  });
}

}  // namespace
}  // namespace hvd::engine
