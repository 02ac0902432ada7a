#include "ops/shm/shm_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/base/status.h"
#include "test/ops/shm/shm_ranks.h"
#include "test/support/collective_cases.h"
#include "test/support/collective_contract.h"
#include "test/support/failing_fallocate.h"
#include "test/support/run_ranks.h"

namespace hvd::engine::test {
namespace {

using ::testing::HasSubstr;

struct Flavour {
  std::string name;
  ShmLimits limits;
};

const Flavour kDefault = {"Default", {}};
// Every batch takes many steps and every operation waits for the one before.
const Flavour kTiny = {"Tiny", {.lanes = 1, .chunk_bytes = 4096, .small_bytes = 0}};
const Flavour kTinySmall = {"TinySmall",
                            {.lanes = 2, .chunk_bytes = 4096, .small_bytes = std::size_t{1} << 30}};

std::vector<CollectiveCase> cases_of(bool large) {
  std::vector<CollectiveCase> chosen;
  for (const CollectiveCase& each : collective_contract()) {
    const auto has = [&](const char* text) { return each.name.find(text) != std::string::npos; };
    const bool is_large = has("Mebibytes") || has("Large") || has("EverySize");
    if (is_large == large) chosen.push_back(each);
  }
  return chosen;
}

using Sizes = std::vector<int>;
using Parameters = std::tuple<Flavour, Sizes, CollectiveCase>;

class ShmCollectiveContract : public ::testing::TestWithParam<Parameters> {};

TEST_P(ShmCollectiveContract, Holds) {
  const auto& [flavour, sizes, contract] = GetParam();
  for (const int size : sizes) {
    ShmRanks ranks(size, flavour.limits);
    run_ranks(size,
              [&, &run = contract.run, count = size](Rank rank) { run(ranks[rank], rank, count); });
  }
}

std::string name_of_case(const ::testing::TestParamInfo<Parameters>& info) {
  return std::get<0>(info.param).name + "_" + std::get<2>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(All, ShmCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault, kTiny, kTinySmall),
                                            ::testing::Values(Sizes{1, 2, 3, 4, 7}),
                                            ::testing::ValuesIn(cases_of(false))),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Large, ShmCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault),
                                            ::testing::Values(Sizes{1, 2, 3}),
                                            ::testing::ValuesIn(cases_of(true))),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Abort, ShmCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault, kTiny),
                                            ::testing::Values(Sizes{2, 3, 7}),
                                            ::testing::Values(collective_abort_contract())),
                         name_of_case);

// Looks only when it was rung: whoever is not told of what it waits for waits forever.
void finish_when_rung(const Operations& operations, Doorbell bell) {
  const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
  for (;;) {
    const auto seen = bell.rings();
    bool finished = true;
    for (const auto& operation : operations) finished = operation->advance() && finished;
    if (finished) return;
    ASSERT_LT(Clock::now(), deadline) << "nobody rang";
    bell.wait_until(seen, deadline);
  }
}

// One of each kind, so long that they take several steps.
void run_one_of_each(Collective& collective, Rank rank, int size, const Doorbell& bell) {
  const auto ranks = static_cast<std::size_t>(size);
  constexpr std::int64_t kNumel = 150'000;
  Batch sums[3];
  for (Batch& batch : sums) batch.add(contributions(ReduceOp::kSum, DType::kF32, rank, kNumel));
  Batch copies;
  copies.add(contributions(ReduceOp::kSum, DType::kF32, rank, kNumel));
  TypedArray whole = contributions(ReduceOp::kSum, DType::kF32, rank, kNumel * size);
  TypedArray part(DType::kF32, kNumel);
  const ScatterSlice scatter = {whole.view(), part.view(),
                                std::vector<std::int64_t>(ranks, kNumel)};
  TypedArray arrived(DType::kF32, kNumel * size);
  const std::vector<std::size_t> bytes(ranks, kNumel * sizeof(float));
  const ExchangeSlice parcels = {whole.data(), arrived.data(), bytes, bytes};
  TypedArray all(DType::kF32, kNumel * size);
  const GatherSlice gather = {part.data(), all.data(), bytes};
  TypedArray received(DType::kF32, kNumel);
  Operations operations;
  operations.push_back(collective.all_reduce(sums[0].slices(), {}));
  operations.push_back(collective.broadcast(copies.slices(), size - 1));
  operations.push_back(collective.reduce_scatter({&scatter, 1}, {}));
  operations.push_back(collective.all_to_all({&parcels, 1}));
  operations.push_back(collective.all_reduce(sums[1].slices(), {.wire = WireFormat::kF16}));
  operations.push_back(collective.receive(received.view(), (rank + 1) % size, 0));
  operations.push_back(collective.send(copies.input(0).view(), (rank + size - 1) % size, 0));
  operations.push_back(collective.all_reduce(sums[2].slices(), {.op = ReduceOp::kAdasum}));
  operations.push_back(collective.all_gather({&gather, 1}));
  if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  ASSERT_NO_FATAL_FAILURE(finish_when_rung(operations, bell));
  expect_same(sums[0].output(0), combination(ReduceOp::kSum, DType::kF32, size, kNumel), "sum");
  expect_same(copies.output(0), contributions(ReduceOp::kSum, DType::kF32, size - 1, kNumel),
              "broadcast");
}

TEST(ShmCollective, RingsWhoeverMayWait) {
  for (const int size : {2, 3}) {
    ShmRanks ranks(size, {.lanes = 2, .chunk_bytes = 65'536});
    run_ranks(size, [&](Rank rank) {
      std::vector<Rank> everyone(static_cast<std::size_t>(size));
      std::iota(everyone.begin(), everyone.end(), 0);
      run_one_of_each(ranks[rank], rank, size, ranks.bell(rank));
      const auto subset = ranks[rank].subset(5, everyone);
      run_one_of_each(*subset, rank, size, ranks.bell(rank));
    });
  }
}

// The lowest rank of a set gives it a place; the others may have started operations long before.
TEST(ShmCollective, StartsInASetThatItsLowestRankHasNotMadeYet) {
  ShmRanks ranks(2);
  const Rank both[] = {0, 1};
  Batch batches[2];
  for (const Rank rank : both) {
    batches[rank].add(contributions(ReduceOp::kSum, DType::kI32, rank, 100));
  }
  const auto early = ranks[1].subset(3, both);
  const auto operation = early->all_reduce(batches[1].slices(), {});
  EXPECT_FALSE(operation->advance());
  const auto seen = ranks.bell(1).rings();
  const auto late = ranks[0].subset(3, both);
  EXPECT_NE(ranks.bell(1).rings(), seen) << "the place was given in silence";
  const auto other = late->all_reduce(batches[0].slices(), {});
  while (!other->advance()) operation->advance();
  while (!operation->advance()) other->advance();
  expect_same(batches[0].output(0), combination(ReduceOp::kSum, DType::kI32, 2, 100), "sum");
}

// Slices as a Runtime gives those of one submission.
std::vector<Slice> submitted(Batch& batch, std::uint64_t submission) {
  std::vector<Slice> slices(batch.slices().begin(), batch.slices().end());
  slices.front().submission = submission;
  return slices;
}

class ShmShownEarly : public ::testing::Test {
 protected:
  static constexpr int kSize = 3;
  static constexpr std::int64_t kNumel = 100;

  ShmShownEarly() {
    for (const Rank rank : {0, 1, 2}) {
      batches_[rank].add(contributions(ReduceOp::kSum, DType::kF32, rank, kNumel));
      values_[rank] = submitted(batches_[rank], 7);
    }
  }
  std::unique_ptr<Operation> reduce(Rank rank) {
    return ranks_[rank].all_reduce(values_[rank], {});
  }
  void expect_sum(Rank rank) {
    expect_same(batches_[rank].output(0), combination(ReduceOp::kSum, DType::kF32, kSize, kNumel),
                "sum");
  }

  ShmRanks ranks_{kSize};
  Batch batches_[kSize];
  std::vector<Slice> values_[kSize];
};

TEST_F(ShmShownEarly, IsReadBeforeItsRankHasStarted) {
  for (const Rank rank : {1, 2}) ranks_[rank].show_early(values_[rank]);
  const auto first = reduce(0);
  EXPECT_TRUE(first->advance());
  expect_sum(0);
  for (const Rank rank : {2, 1}) {
    EXPECT_TRUE(reduce(rank)->advance());
    expect_sum(rank);
  }
}

TEST_F(ShmShownEarly, IsNotWaitedForByTheOthersIfOneShowsNothing) {
  ranks_[1].show_early(values_[1]);
  const auto first = reduce(0), second = reduce(1);
  EXPECT_FALSE(first->advance());
  EXPECT_FALSE(second->advance());
  const auto seen = ranks_.bell(1).rings();
  EXPECT_TRUE(reduce(2)->advance());
  EXPECT_NE(ranks_.bell(1).rings(), seen) << "the last one rings";
  EXPECT_TRUE(first->advance());
  EXPECT_TRUE(second->advance());
  for (const Rank rank : {0, 1, 2}) expect_sum(rank);
}

TEST_F(ShmShownEarly, IsNotTakenForAnotherOperation) {
  Batch others[kSize];
  for (const Rank rank : {1, 2}) ranks_[rank].show_early(values_[rank]);
  for (const Rank rank : {0, 1, 2}) {
    others[rank].add(contributions(ReduceOp::kMax, DType::kI32, rank, kNumel));
  }
  for (const std::uint64_t submission : {std::uint64_t{0}, std::uint64_t{9}}) {
    Operations operations;
    for (const Rank rank : {0, 1, 2}) {
      operations.push_back(
          ranks_[rank].all_reduce(submitted(others[rank], submission), {.op = ReduceOp::kMax}));
      EXPECT_EQ(operations.back()->advance(), rank == 2);
    }
    for (const auto& each : operations) EXPECT_TRUE(each->advance());
    expect_same(others[0].output(0), combination(ReduceOp::kMax, DType::kI32, kSize, kNumel),
                "max");
  }
  const auto first = reduce(0), second = reduce(1), third = reduce(2);
  EXPECT_FALSE(first->advance()) << "what was shown has been overwritten";
  EXPECT_FALSE(second->advance());
  EXPECT_TRUE(third->advance());
  EXPECT_TRUE(first->advance());
  expect_sum(0);
  EXPECT_TRUE(second->advance());
}

TEST_F(ShmShownEarly, IsNotReadOnceItIsHidden) {
  for (const Rank rank : {1, 2}) ranks_[rank].show_early(values_[rank]);
  ranks_[2].hide_early();
  const auto first = reduce(0), second = reduce(1);
  EXPECT_FALSE(first->advance());
  EXPECT_FALSE(second->advance());
  EXPECT_TRUE(reduce(2)->advance());
  EXPECT_TRUE(first->advance());
  EXPECT_TRUE(second->advance());
}

// Else it would overwrite what a slower rank still reads.
TEST_F(ShmShownEarly, IsNotShownWhileALaneIsInUse) {
  Operations slow;
  for (int lane = 0; lane < 2; ++lane) {
    slow.push_back(reduce(2));
    EXPECT_FALSE(slow.back()->advance());
    const auto first = reduce(0), second = reduce(1);
    EXPECT_FALSE(first->advance());
    EXPECT_TRUE(second->advance());
    EXPECT_TRUE(first->advance());
  }
  Batch next;
  next.add(contributions(ReduceOp::kMax, DType::kF32, 5, kNumel));
  ranks_[0].show_early(submitted(next, 8));
  for (const auto& each : slow) EXPECT_TRUE(each->advance());
  expect_sum(2);
}

TEST(ShmCollective, RefusesMoreSetsAtATimeThanItHasPlacesFor) {
  ShmRanks ranks(2, {.sets = 2});
  const Rank both[] = {0, 1};
  auto first = ranks[0].subset(1, both);
  auto first_there = ranks[1].subset(1, both);
  const auto second = ranks[0].subset(2, both);
  try {
    ranks[0].subset(3, both);
    FAIL() << "a third place";
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 process sets"));
  }
  first.reset();
  EXPECT_THROW(ranks[0].subset(4, both), UnsupportedError) << "rank 1 is still in it";
  first_there.reset();
  EXPECT_NO_THROW(ranks[0].subset(5, both));
}

TEST(ShmCollective, ASetThatWasLeftBeforeItWasMadeTakesNoPlace) {
  ShmRanks ranks(2, {.sets = 1});
  const Rank both[] = {0, 1};
  ranks[1].subset(1, both).reset();
  ranks[0].subset(1, both).reset();
  const auto next = ranks[1].subset(2, both);
  EXPECT_NO_THROW(ranks[0].subset(2, both));
}

TEST(ShmCollective, AnOperationThatIsGivenUpEndsItsSet) {
  ShmRanks ranks(2);
  Batch batch;
  batch.add(TypedArray(DType::kF32, 10));
  ranks[0].all_reduce(batch.slices(), {}).reset();
  const auto next = ranks[0].all_reduce(batch.slices(), {});
  EXPECT_THROW(next->advance(), AbortedError);
}

// What the lowest rank of a set found out, the others do not wait for.
TEST(ShmCollective, ASetWithoutMemoryIsRefusedAndLeavesNothing) {
  ShmRanks ranks(2, {.sets = 2});
  const std::vector<Rank> both = {0, 1};
  for (std::uint32_t number = 1; number <= 5; ++number) {  // more often than there are places
    const FailingFallocate full(ENOSPC);
    EXPECT_THROW(ranks[0].subset(number, both), UnsupportedError);
    const auto other = ranks[1].subset(number, both);
    TypedArray value = contributions(ReduceOp::kSum, DType::kF32, 1, 10);
    const Slice slice = {value.view(), value.view()};
    EXPECT_THROW(other->all_reduce({&slice, 1}, {})->advance(), UnsupportedError);
  }
  std::vector<std::unique_ptr<Collective>> sets;
  for (std::uint32_t number = 10; number < 12; ++number) {
    sets.push_back(ranks[0].subset(number, both));
    sets.push_back(ranks[1].subset(number, both));
  }
  EXPECT_THROW(ranks[0].subset(12, both), UnsupportedError);  // too many
  ranks[1].subset(12, both);
  sets.clear();
  run_ranks(2, [&](Rank rank) {
    const auto set = ranks[rank].subset(13, both);
    Batch batch;
    batch.add(contributions(ReduceOp::kSum, DType::kF32, rank, 100));
    Operations operations;
    operations.push_back(set->all_reduce(batch.slices(), {}));
    finish_when_rung(operations, ranks.bell(rank));
  });
}

// So that nothing is left behind if a rank is killed between any two steps.
TEST(ShmCollective, AnArenaThatIsBeingMadeHasNoName) {
  const auto names = [] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      if (entry.path().filename().string().starts_with("hvd")) found.insert(entry.path());
    }
    return found;
  };
  const auto before = names();
  ShmRanks ranks(2);
  ArenaMemory first;
  ArenaMemory second;
  const auto half_way = ranks[0].make_arena(1, 1 << 20, first);
  EXPECT_FALSE(half_way->advance());
  EXPECT_EQ(names(), before);
  const auto other = ranks[1].make_arena(1, 1 << 20, second);
  bool done = false;
  while (!done) {
    done = half_way->advance();
    done = other->advance() && done;
  }
  EXPECT_TRUE(first.shared && second.shared);
  EXPECT_EQ(names(), before);
}

TEST(DataSegment, RefusesLimitsThatCannotBeKept) {
  const auto with = [](int size, const ShmLimits& limits) { ShmRanks ranks(size, limits); };
  EXPECT_THROW(with(2, {.lanes = 0}), InvalidArgumentError);
  EXPECT_THROW(with(2, {.chunk_bytes = 5000}), InvalidArgumentError);
  EXPECT_THROW(with(65, {.chunk_bytes = 4096}), InvalidArgumentError) << "no share for each rank";
}

TEST(DataSegment, FitsASmallDevShmUnlessManyRanksShareIt) {
  EXPECT_LE(DataSegment::needs(2, {}).reserved, std::size_t{6} << 20);
  EXPECT_LE(DataSegment::needs(64, {}).reserved, std::size_t{48} << 20);
}

}  // namespace
}  // namespace hvd::engine::test
