// Arenas of simulated ranks, who copy: what ranks agree on, as the places that collectives are told
// show. That memory is reduced in place is in test/support/collective_arena_cases.cc, which the
// contracts of the backends run.
#include "core/runtime/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "core/base/status.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/message_of.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using test::run_ranks;
using test::SimRanks;
using testing::ElementsAre;
using testing::HasSubstr;

// What the all-reduces of all ranks were told about places.
class Places {
 public:
  void note(std::span<const Slice> slices) {
    const std::lock_guard lock(mutex_);
    for (const Slice& slice : slices) offsets_.push_back(slice.place ? slice.place->offset : kNone);
  }
  std::vector<std::uint64_t> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(offsets_, {});
  }
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> offsets_;
};

class NotingCollective final : public test::ForwardingCollective {
 public:
  NotingCollective(std::unique_ptr<Collective> inner, Places& places)
      : ForwardingCollective(std::move(inner)), places_(places) {}
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    places_.note(slices);
    return ForwardingCollective::all_reduce(slices, reduction);
  }

 private:
  Places& places_;
};

class ArenaTest : public testing::Test {
 protected:
  SimRanks ranks_of(int size) {
    return SimRanks(size, {}, {}, [this](Rank, std::unique_ptr<Collective> inner) {
      return std::make_unique<NotingCollective>(std::move(inner), places_);
    });
  }

  Places places_;
};

// Elements that do not travel with their announcement, and bytes that hold them.
constexpr std::int64_t kNotSmall = 5000;
constexpr std::size_t kRoom = std::size_t{32} << 10;

Lease filled(Arena& arena, std::int64_t numel, float value) {
  Lease lease = arena.take(numel, DType::kF32);
  std::fill_n(static_cast<float*>(lease.view.data), numel, value);
  return lease;
}

Submission allreduce(const std::string& name, const Lease& lease) {
  Submission made;
  made.request.name = name;
  made.request.dtype = lease.view.dtype;
  made.request.shapes = {{lease.view.numel}};
  made.parts.push_back({.input = lease, .output = lease});
  return made;
}

float first_of(const Lease& lease) {
  return *static_cast<const float*>(lease.view.data);
}

TEST_F(ArenaTest, HandsOutAlignedPiecesInOrder) {
  const auto memory = std::make_shared<std::vector<std::byte>>(256);
  Arena arena(1, kWorldSet, {{memory->data(), 256, DType::kU8, {}}, memory});
  const Lease a = arena.take(3, DType::kF32);
  const Lease b = arena.take(8, DType::kF64);
  const Lease c = arena.take(120, DType::kU8);
  EXPECT_EQ(a.view.data, memory->data());
  EXPECT_EQ(b.view.data, memory->data() + 64);
  EXPECT_EQ(c.view.data, memory->data() + 128);
  EXPECT_EQ(arena.used(), 256u);
  EXPECT_EQ(c.owner, memory);
  try {
    arena.take(1, DType::kU8);
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no room for 1 elements of uint8; 0 of 256 bytes"));
  }
}

TEST_F(ArenaTest, WhatLiesAtOnePlaceIsReducedThere) {
  SimRanks ranks = ranks_of(3);
  run_ranks(3, [&](Rank rank) {
    const auto arena = ranks[rank].make_arena("gradients", kRoom).wait();
    EXPECT_TRUE(arena->shared());
    filled(*arena, 16, 0);
    const Lease mine = filled(*arena, kNotSmall, static_cast<float>(rank + 1));
    for (const float expected : {6.0f, 18.0f, 54.0f}) {
      ranks[rank].submit(allreduce("w", mine)).wait();
      EXPECT_EQ(first_of(mine), expected);
    }
  });
  EXPECT_EQ(places_.take(), std::vector<std::uint64_t>(9, 64));
}

TEST_F(ArenaTest, AGroupOfNeighboursIsReducedAsOne) {
  SimRanks ranks = ranks_of(2);
  run_ranks(2, [&](Rank rank) {
    const auto arena = ranks[rank].make_arena("gradients", 4096).wait();
    const Lease a = filled(*arena, 16, 1);
    const Lease b = filled(*arena, 16, static_cast<float>(rank));
    Submission group = allreduce("group", a);
    group.request.shapes.push_back({16});
    group.parts.push_back({.input = b, .output = b});
    ranks[rank].submit(std::move(group)).wait();
    EXPECT_EQ(first_of(a), 2);
    EXPECT_EQ(first_of(b), 1);
  });
  EXPECT_THAT(places_.take(), ElementsAre(0, 64, 0, 64));
}

TEST_F(ArenaTest, RanksElsewhereMakeAllPackAndTheResultIsTheSame) {
  SimRanks ranks = ranks_of(2);
  run_ranks(2, [&](Rank rank) {
    const auto arena = ranks[rank].make_arena("gradients", kRoom).wait();
    if (rank == 1) filled(*arena, 16, 0);
    const Lease mine = filled(*arena, kNotSmall, static_cast<float>(rank + 1));
    for (const float expected : {3.0f, 6.0f, 12.0f}) {
      ranks[rank].submit(allreduce("w", mine)).wait();
      EXPECT_EQ(first_of(mine), expected);
    }
  });
  EXPECT_EQ(places_.take(), std::vector<std::uint64_t>(6, Places::kNone));
}

TEST_F(ArenaTest, LossyAndAdasumAndOutOfPlaceArePacked) {
  SimRanks ranks = ranks_of(2);
  run_ranks(2, [&](Rank rank) {
    const auto arena = ranks[rank].make_arena("gradients", 4096).wait();
    const Lease a = filled(*arena, 16, 2);
    const Lease b = filled(*arena, 16, 0);
    Submission lossy = allreduce("lossy", a);
    lossy.request.wire = WireFormat::kF16;
    ranks[rank].submit(std::move(lossy)).wait();
    EXPECT_EQ(first_of(a), 4);
    Submission adasum = allreduce("adasum", a);
    adasum.request.op = ReduceOp::kAdasum;
    ranks[rank].submit(std::move(adasum)).wait();
    EXPECT_EQ(first_of(a), 4);
    Submission copied = allreduce("copied", a);
    copied.parts[0].output = b;
    ranks[rank].submit(std::move(copied)).wait();
    EXPECT_EQ(first_of(a), 4);
    EXPECT_EQ(first_of(b), 8);
  });
  EXPECT_EQ(places_.take(), std::vector<std::uint64_t>(6, Places::kNone));
}

TEST_F(ArenaTest, AJoinedRankMakesTheOthersPack) {
  SimRanks ranks = ranks_of(3);
  run_ranks(3, [&](Rank rank) {
    const auto arena = ranks[rank].make_arena("gradients", 4096).wait();
    const Lease mine = filled(*arena, 5, 1);
    ranks[rank].submit(allreduce("w", mine)).wait();
    if (rank != 2) {
      ranks[rank].submit(allreduce("w", mine)).wait();
      EXPECT_EQ(first_of(mine), 6);
      // A joined rank takes part in an arena of the others.
      EXPECT_TRUE(ranks[rank].make_arena("another", 64).wait()->shared());
    }
    ranks[rank].submit(test::join("end")).wait();
  });
  auto places = places_.take();
  EXPECT_EQ(std::count(places.begin(), places.end(), 0u), 3);
  EXPECT_EQ(std::count(places.begin(), places.end(), Places::kNone), 3);
}

TEST_F(ArenaTest, DifferentSizesAreAMismatchOnEveryRank) {
  SimRanks ranks = ranks_of(2);
  run_ranks(2, [&](Rank rank) {
    EXPECT_THAT(message_of<MismatchError>(
                    [&] { ranks[rank].make_arena("gradients", rank == 0 ? 64 : 128).wait(); }),
                HasSubstr("bytes: [64] on rank 0, [128] on rank 1"));
    EXPECT_TRUE(ranks[rank].make_arena("gradients", 64).wait()->shared());
    EXPECT_THROW(ranks[rank].make_arena("nothing", 0), InvalidArgumentError);
  });
}

TEST_F(ArenaTest, AProcessSetHasItsOwn) {
  SimRanks ranks(3);
  run_ranks(3, [&](Rank rank) {
    const auto id = ranks[rank].submit(test::add_set("pair", {0, 2})).wait().number;
    const auto set = static_cast<ProcessSetId>(id);
    if (rank == 1) return;
    const auto arena = ranks[rank].make_arena("gradients", 4096, set).wait();
    const Lease mine = filled(*arena, 5, static_cast<float>(rank + 1));
    Submission submission = allreduce("w", mine);
    submission.request.set = set;
    ranks[rank].submit(std::move(submission)).wait();
    EXPECT_EQ(first_of(mine), 4);
  });
}

TEST_F(ArenaTest, MemoryOutlivesTheArenaAndGoesWithItsLastPiece) {
  SimRanks ranks = ranks_of(2);
  std::weak_ptr<const void> memories[2];
  run_ranks(2, [&](Rank rank) {
    auto arena = ranks[rank].make_arena("gradients", 4096).wait();
    const Lease mine = filled(*arena, 5, 1);
    memories[rank] = mine.owner;
    arena.reset();
    ranks[rank].submit(allreduce("w", mine)).wait();
    EXPECT_EQ(first_of(mine), 2);
  });
  for (const auto& memory : memories) EXPECT_TRUE(memory.expired());
  EXPECT_THAT(places_.take(), ElementsAre(0, 0));
}

// The new owner of the same addresses is in no arena.
TEST_F(ArenaTest, MemoryOfAnArenaThatIsGoneIsOrdinary) {
  const auto memory = std::make_shared<std::vector<float>>(64);
  ArenaRegistry registry;
  {
    auto first = std::make_shared<int>(0);
    registry.add(Arena(7, kWorldSet, {{memory->data(), 256, DType::kU8, {}}, first}));
    Submission submission = allreduce("w", {{memory->data(), 64, DType::kF32, {}}, memory});
    registry.place(submission);
    EXPECT_EQ(submission.request.place.arena, 7u);
  }
  Submission submission = allreduce("w", {{memory->data(), 64, DType::kF32, {}}, memory});
  registry.place(submission);
  EXPECT_EQ(submission.request.place.arena, 0u);
}

TEST_F(ArenaTest, AWorldOfOneRankHasOrdinaryMemory) {
  SimRanks ranks = ranks_of(1);
  const auto arena = ranks[0].make_arena("gradients", 4096).wait();
  const Lease mine = filled(*arena, 5, 3);
  ranks[0].submit(allreduce("w", mine)).wait();
  EXPECT_EQ(first_of(mine), 3);
}

// What the others wrote into an arena when the job ended is there; nobody writes it again.
TEST_F(ArenaTest, ARankThatDiesFailsTheReductionAndANewJobHasNewArenas) {
  auto first = std::make_unique<SimRanks>(2);
  std::vector<Lease> old(2);
  run_ranks(2, [&](Rank rank) {
    const auto arena = (*first)[rank].make_arena("gradients", 4096).wait();
    old[static_cast<std::size_t>(rank)] = filled(*arena, 5, 1);
  });
  run_ranks(2, [&](Rank rank) {
    if (rank == 1) {
      first->world.kill(1);
      return;
    }
    EXPECT_THROW((*first)[rank].submit(allreduce("w", old[0])).wait(), HorovodInternalError);
  });
  first.reset();
  SimRanks second = ranks_of(2);
  run_ranks(2, [&](Rank rank) {
    const Lease& mine = old[static_cast<std::size_t>(rank)];
    second[rank].submit(allreduce("w", mine)).wait();
    EXPECT_EQ(first_of(mine), 2);
  });
  EXPECT_THAT(places_.take(), ElementsAre(Places::kNone, Places::kNone));
}

}  // namespace
}  // namespace hvd::engine
