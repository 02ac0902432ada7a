#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/status.h"
#include "test/support/collective_cases.h"
#include "test/support/reduce_ops.h"

namespace hvd::engine::test {
namespace {

// Numbers are never used again: every case has a hundred of its own, for arenas and for subsets.
constexpr std::uint64_t kEveryOp = 1000;
constexpr std::uint64_t kScaled = 1100;
constexpr std::uint64_t kRounds = 1200;
constexpr std::uint64_t kMany = 1300;
constexpr std::uint64_t kSets = 1400;
constexpr std::uint64_t kLarge = 1500;
constexpr std::uint64_t kMisplaced = 1600;
constexpr std::uint64_t kDropped = 1700;

// An arena of one Collective. Where that is not shared there are slices of other memory, without a
// place, and all that follows holds as well.
class TestArena {
 public:
  TestArena(Collective& collective, std::uint64_t number, std::size_t bytes) : number_(number) {
    finish(*collective.make_arena(number, bytes, memory_), collective);
    if (!shared()) {
      EXPECT_EQ(memory_.mine.data, nullptr);
      memory_.mine = collective.allocate(bytes);
    }
    EXPECT_GE(memory_.mine.bytes, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory_.mine.data) % 64, 0u);
  }

  bool shared() const { return memory_.shared; }
  // Writes the values there; the slice of them.
  Slice put(const TypedArray& values, std::size_t offset) const {
    std::byte* const first = at(offset);
    if (values.bytes() != 0) std::memcpy(first, values.data(), values.bytes());
    Slice slice{{first, values.numel(), values.dtype(), {}},
                {first, values.numel(), values.dtype(), {}}};
    if (shared()) slice.place = SlicePlace{number_, offset};
    return slice;
  }
  std::byte* at(std::size_t offset) const {
    return static_cast<std::byte*>(memory_.mine.data) + offset;
  }

 private:
  std::uint64_t number_;
  ArenaMemory memory_;
};

TypedArray read(const Slice& slice) {
  TypedArray values(slice.output.dtype, slice.output.numel);
  if (values.bytes() != 0) std::memcpy(values.data(), slice.output.data, values.bytes());
  return values;
}

void expect_combined(const Slice& slice, ReduceOp op, int size) {
  expect_same(read(slice), combination(op, slice.output.dtype, size, slice.output.numel),
              std::string(name_of(op)) + " over " + std::to_string(size) + " in an arena");
}

// Neighbours, gaps and an empty one; in the order of memory and not.
void reduces_where_they_lie(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumels[] = {517, 1, 0, 1003, 64, 4099};
  const TestArena arena(collective, kEveryOp, 1 << 18);
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : elementwise_ops(dtype)) {
      std::memset(arena.at(0), 0x5a, 1 << 18);
      std::vector<Slice> slices;
      std::vector<std::size_t> gaps;
      std::size_t offset = 64;
      for (const std::int64_t numel : kNumels) {
        slices.push_back(arena.put(contributions(op, dtype, rank, numel), offset));
        offset += slices.back().input.bytes();
        gaps.push_back(offset);
        offset = (offset + 63) / 64 * 64 + (numel == 64 ? 4096 : 0);
      }
      gaps.push_back(63);
      if (op == ReduceOp::kMax) std::reverse(slices.begin(), slices.end());
      finish(*collective.all_reduce(slices, {.op = op}), collective);
      for (const Slice& slice : slices) expect_combined(slice, op, size);
      for (const std::size_t gap : gaps) {
        if (gap % 64 == 0) continue;
        EXPECT_EQ(*arena.at(gap), std::byte{0x5a}) << name_of(dtype) << ": past the end, " << gap;
      }
    }
  }
}

void scales_in_place(Collective& collective, Rank rank, int size) {
  const TestArena arena(collective, kScaled, 1 << 14);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16}) {
    const Slice slice = arena.put(contributions(ReduceOp::kSum, dtype, rank, 300), 128);
    finish(*collective.all_reduce({&slice, 1}, {.prescale = 2, .postscale = 0.5}), collective);
    expect_combined(slice, ReduceOp::kSum, size);
  }
}

// Whose operation is finished may write there at once, whatever the others still do.
void is_finished_when_the_others_are_through(Collective& collective, Rank rank, int size) {
  const TestArena arena(collective, kRounds, 1 << 14);
  for (int round = 0; round < 300; ++round) {
    const auto value = [&](Rank of) { return (of + 1) * (round % 7 + 1); };
    const auto numel = static_cast<std::int64_t>(round * 37 % 2000);
    double sum = 0;
    for (Rank of = 0; of < size; ++of) sum += value(of);
    const Slice slice =
        arena.put(make_array(DType::kF32, numel, [&](std::int64_t) { return value(rank); }), 0);
    if (round % 50 == rank) std::this_thread::sleep_for(std::chrono::microseconds(300));
    finish(*collective.all_reduce({&slice, 1}, {}), collective);
    expect_same(read(slice), make_array(DType::kF32, numel, [&](std::int64_t) { return sum; }),
                "round " + std::to_string(round));
    std::memset(arena.at(0), 0xff, slice.input.bytes());
  }
}

// In two arenas and outside of any, at the same time, polled in another order on every rank.
void many_run_side_by_side(Collective& collective, Rank rank, int size) {
  constexpr std::size_t kOperations = 9;
  const TestArena arenas[] = {{collective, kMany, 1 << 16}, {collective, kMany + 1, 1 << 16}};
  std::deque<Batch> packed;
  std::deque<std::vector<Slice>> placed;
  Operations operations;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < kOperations; ++i) {
    order.push_back((i + static_cast<std::size_t>(rank)) % kOperations);
    const auto values =
        contributions(ReduceOp::kSum, DType::kF32, rank, static_cast<std::int64_t>(100 + 31 * i));
    if (i % 3 == 2) {
      packed.emplace_back().add(values);
      operations.push_back(collective.all_reduce(packed.back().slices(), {}));
    } else {
      placed.push_back(
          {arenas[i % 3].put(values, 4096 * i), arenas[i % 3].put(values, 4096 * i + 2048)});
      operations.push_back(collective.all_reduce(placed.back(), {}));
    }
  }
  finish_in_order(operations, order, collective);
  for (const auto& slices : placed) {
    for (const Slice& slice : slices) expect_combined(slice, ReduceOp::kSum, size);
  }
  for (const Batch& batch : packed) {
    expect_same(batch.output(0),
                combination(ReduceOp::kSum, DType::kF32, size, batch.output(0).numel()), "packed");
  }
}

// A ring of pairs with an arena each, and one of all ranks.
void sets_have_arenas_of_their_own(Collective& collective, Rank rank, int size) {
  if (size < 3) return;
  const TestArena everyone(collective, kSets, 1 << 14);
  std::deque<std::unique_ptr<Collective>> pairs;
  std::deque<TestArena> arenas;
  std::deque<Slice> slices;
  Operations operations;
  for (Rank first = 0; first < size; ++first) {  // in one order everywhere: each waits
    const Rank second = (first + 1) % size;
    if (rank != first && rank != second) continue;
    const Rank ranks[] = {std::min(first, second), std::max(first, second)};
    const auto number = static_cast<std::uint32_t>(kSets) + static_cast<std::uint32_t>(first);
    pairs.push_back(collective.subset(number, ranks));
    arenas.emplace_back(*pairs.back(), number + 1, 1 << 14);
    const double value = first + 10.0 * rank;
    slices.push_back(
        arenas.back().put(make_array(DType::kF64, 700, [&](std::int64_t) { return value; }), 64));
    operations.push_back(pairs.back()->all_reduce({&slices.back(), 1}, {}));
  }
  slices.push_back(everyone.put(contributions(ReduceOp::kSum, DType::kF64, rank, 700), 192));
  operations.push_back(collective.all_reduce({&slices.back(), 1}, {}));
  finish_all(operations, collective);
  expect_combined(slices.back(), ReduceOp::kSum, size);
  std::size_t i = 0;
  for (Rank first = 0; first < size; ++first) {
    const Rank second = (first + 1) % size;
    if (rank != first && rank != second) continue;
    pairs[i]->fence().wait();
    const double sum = 2.0 * first + 10.0 * (first + second);
    expect_same(read(slices[i++]), make_array(DType::kF64, 700, [&](std::int64_t) { return sum; }),
                "a pair's sum");
  }
}

void reduces_several_mebibytes(Collective& collective, Rank rank, int size) {
  const TestArena arena(collective, kLarge, 12 << 20);
  const Slice slices[] = {
      arena.put(contributions(ReduceOp::kSum, DType::kF32, rank, 1'300'003), 0),
      arena.put(contributions(ReduceOp::kSum, DType::kF32, rank, 700'001), 5'200'064)};
  finish(*collective.all_reduce(slices, {}), collective);
  for (const Slice& slice : slices) expect_combined(slice, ReduceOp::kSum, size);
}

void refuses_what_lies_elsewhere(Collective& collective, Rank rank, int) {
  const TestArena arena(collective, kMisplaced, 4096);
  if (!arena.shared()) return;
  const TypedArray values = contributions(ReduceOp::kSum, DType::kF32, rank, 10);
  const Slice good = arena.put(values, 64);
  const auto refused = [&](const auto& change, const Reduction& reduction = {}) {
    std::vector<Slice> slices(2, good);
    change(slices[1]);
    EXPECT_THROW(collective.all_reduce(slices, reduction), InvalidArgumentError);
  };
  refused([](Slice& slice) { slice.place->offset += 4; });
  refused([](Slice& slice) { slice.place->arena += 1; });
  refused([](Slice& slice) { slice.place.reset(); });
  refused([&](Slice& slice) { slice.output.data = arena.at(1024); });
  refused([](Slice&) {}, {.wire = WireFormat::kF16});
  refused([](Slice&) {}, {.op = ReduceOp::kAdasum});
}

// Memory goes with its last user, the number stays used; another arena is not disturbed.
void others_outlive_one_that_is_dropped(Collective& collective, Rank rank, int size) {
  const TestArena kept(collective, kDropped, 4096);
  const Slice slice = kept.put(contributions(ReduceOp::kSum, DType::kI64, rank, 100), 0);
  for (std::uint64_t i = 1; i < 20; ++i) {
    const TestArena dropped(collective, kDropped + i, 1 << 16);
    dropped.put(contributions(ReduceOp::kSum, DType::kI64, rank, 1000), 64);
  }
  finish(*collective.all_reduce({&slice, 1}, {}), collective);
  expect_combined(slice, ReduceOp::kSum, size);
}

}  // namespace

void add_arena_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"ArenaReducesWhereTensorsLie", reduces_where_they_lie});
  cases.push_back({"ArenaScales", scales_in_place});
  cases.push_back(
      {"ArenaOperationIsFinishedWhenOthersAreThrough", is_finished_when_the_others_are_through});
  cases.push_back({"ArenaOperationsRunSideBySide", many_run_side_by_side});
  cases.push_back({"ArenaOfASubset", sets_have_arenas_of_their_own});
  cases.push_back({"ArenaOfSeveralMebibytes", reduces_several_mebibytes});
  cases.push_back({"ArenaRefusesWhatLiesElsewhere", refuses_what_lies_elsewhere});
  cases.push_back({"ArenasOutliveOneThatIsDropped", others_outlive_one_that_is_dropped});
}

}  // namespace hvd::engine::test
