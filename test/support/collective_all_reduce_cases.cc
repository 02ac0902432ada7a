#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "test/support/collective_cases.h"

namespace hvd::test {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};

constexpr std::int64_t kPeriod = 44;  // of contributions: 4 times 11

// What a rank contributes: integers whose sum over 20 ranks and product over 28 no dtype rounds.
double contribution(ReduceOp op, Rank rank, std::int64_t i) {
  if (op == ReduceOp::kProduct) return (rank + i) % 4 == 0 ? 2 : 1;
  return static_cast<double>(1 + (rank * 5 + i * 7) % 11);
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kProduct:
      return a * b;
    default:
      return a + b;
  }
}

double reduced(ReduceOp op, int size, std::int64_t i) {
  double value = contribution(op, 0, i);
  for (Rank rank = 1; rank < size; ++rank) value = combine(op, value, contribution(op, rank, i));
  return value;
}

TypedArray contributions(DType dtype, ReduceOp op, Rank rank, std::int64_t numel) {
  return make_periodic(dtype, numel, kPeriod,
                       [&](std::int64_t i) { return contribution(op, rank, i); });
}

void run_all_reduce(Collective& collective, const Batch& batch, ReduceOp op, double scale) {
  const auto operation = collective.all_reduce(batch.slices(), op, scale);
  finish(*operation, collective);
}

void expect_reduced(const TypedArray& output, ReduceOp op, int size) {
  const auto expected = [&](std::int64_t i) { return reduced(op, size, i); };
  expect_same(output, make_periodic(output.dtype(), output.numel(), kPeriod, expected),
              std::string(name_of(op)) + " over " + std::to_string(size));
}

void reduces_exactly(DType dtype, ReduceOp op, Collective& collective, Rank rank, int size) {
  Batch batch;
  batch.add(contributions(dtype, op, rank, 1003));
  run_all_reduce(collective, batch, op, 1.0);
  expect_reduced(batch.output(0), op, size);
}

void averages_by_scale(DType dtype, Collective& collective, Rank rank, int size) {
  Batch batch;
  batch.add(contributions(dtype, ReduceOp::kSum, rank, 517));
  const double scale = 1.0 / size;
  run_all_reduce(collective, batch, ReduceOp::kSum, scale);
  for (std::int64_t i = 0; i < 517; ++i) {
    const double exact = reduced(ReduceOp::kSum, size, i) * scale;
    if (is_floating(dtype)) {
      const double unit = dtype == DType::kF16    ? 0x1p-10
                          : dtype == DType::kBF16 ? 0x1p-7
                          : dtype == DType::kF32  ? 0x1p-22
                                                  : 0x1p-51;
      ASSERT_NEAR(batch.output(0).at(i), exact, exact * unit) << name_of(dtype) << " at " << i;
    } else {
      ASSERT_EQ(batch.output(0).at(i), std::trunc(exact)) << name_of(dtype) << " at " << i;
    }
  }
}

void keeps_inputs_out_of_place(Collective& collective, Rank rank, int size) {
  Batch batch;
  const TypedArray mine = contributions(DType::kF32, ReduceOp::kSum, rank, 700);
  batch.add(mine);
  batch.add(mine, /*in_place=*/true);
  run_all_reduce(collective, batch, ReduceOp::kSum, 1.0);
  expect_same(batch.input(0), mine, "the input");
  expect_reduced(batch.output(0), ReduceOp::kSum, size);
  expect_reduced(batch.output(1), ReduceOp::kSum, size);
}

void reduces_many_odd_slices(DType dtype, Collective& collective, Rank rank, int size) {
  Batch batch;
  for (std::int64_t n = 0; n < 150; ++n) {
    if (n % 13 == 5) {
      batch.add_nothing(dtype);
    } else {
      batch.add(contributions(dtype, ReduceOp::kSum, rank, n * n % 397), n % 3 == 0);
    }
  }
  run_all_reduce(collective, batch, ReduceOp::kSum, 1.0);
  for (std::size_t n = 0; n < 150; ++n) expect_reduced(batch.output(n), ReduceOp::kSum, size);
}

void reduces_nothing(Collective& collective, Rank, int) {
  Batch none;
  run_all_reduce(collective, none, ReduceOp::kSum, 1.0);
  Batch empty;
  empty.add_nothing(DType::kF32);
  run_all_reduce(collective, empty, ReduceOp::kSum, 0.5);
  EXPECT_EQ(empty.output(0).numel(), 0);
}

void reduces_several_mebibytes(Collective& collective, Rank rank, int size) {
  Batch batch;
  batch.add(contributions(DType::kF32, ReduceOp::kSum, rank, 1'300'003), true);
  batch.add(contributions(DType::kF32, ReduceOp::kSum, rank, 5));
  batch.add(contributions(DType::kF32, ReduceOp::kSum, rank, 700'001));
  run_all_reduce(collective, batch, ReduceOp::kSum, 1.0);
  for (std::size_t i = 0; i < 3; ++i) expect_reduced(batch.output(i), ReduceOp::kSum, size);
}

// `big` + 1 is not a half, but big + size - 1 rounds well: who rounds each partial sum loses ones.
void rounds_halves_once(DType dtype, double big, Collective& collective, Rank rank, int size) {
  Batch batch;
  batch.add(TypedArray(dtype, std::vector<double>(65, rank == 0 ? big : 1.0)));
  run_all_reduce(collective, batch, ReduceOp::kSum, 1.0);
  const TypedArray expected(dtype, std::vector<double>(65, big + size - 1));
  expect_same(batch.output(0), expected, "rounded once");
}

// Numbers of many magnitudes, so that the order of additions shows in the last bits.
TypedArray wild_numbers(DType dtype, Rank rank, std::int64_t numel) {
  std::mt19937 random(static_cast<unsigned>(rank) + 17);
  std::uniform_real_distribution<double> mantissa(-1.0, 1.0);
  return make_array(dtype, numel, [&](std::int64_t) {
    return std::ldexp(mantissa(random), static_cast<int>(random() % 12) - 6);
  });
}

template <typename Accumulator>
TypedArray sum_in_rank_order(DType dtype, int size, std::int64_t numel) {
  std::vector<TypedArray> inputs;
  for (Rank rank = 0; rank < size; ++rank) inputs.push_back(wild_numbers(dtype, rank, numel));
  return make_array(dtype, numel, [&](std::int64_t i) {
    auto sum = static_cast<Accumulator>(inputs[0].at(i));
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      sum += static_cast<Accumulator>(inputs[rank].at(i));
    }
    return static_cast<double>(sum);
  });
}

void adds_in_rank_order(DType dtype, Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 5'011;
  Batch batch;
  batch.add(wild_numbers(dtype, rank, kNumel));
  run_all_reduce(collective, batch, ReduceOp::kSum, 1.0);
  const TypedArray expected = dtype == DType::kF64 ? sum_in_rank_order<double>(dtype, size, kNumel)
                                                   : sum_in_rank_order<float>(dtype, size, kNumel);
  expect_same(batch.output(0), expected, "added in rank order");
}

// 1/3 and 1/7 are no binary fractions: scaling must not differ between ranks either.
void is_bitwise_equal_on_all_ranks(DType dtype, Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 3'001;
  Batch batch;
  batch.add(wild_numbers(dtype, rank, kNumel), /*in_place=*/true);
  run_all_reduce(collective, batch, ReduceOp::kSum, 1.0 / 3.0);
  run_all_reduce(collective, batch, ReduceOp::kSum, 1.0 / 7.0);
  const TypedArray& mine = batch.output(0);
  TypedArray all(dtype, kNumel * size);
  const GatherSlice slice = {
      mine.data(), all.data(),
      std::vector<std::size_t>(static_cast<std::size_t>(size), mine.bytes())};
  const auto gather = collective.all_gather({&slice, 1});
  finish(*gather, collective);
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    ASSERT_EQ(all.at(i), mine.at(i % kNumel))
        << "element " << i % kNumel << " of rank " << i / kNumel;
  }
}

}  // namespace

void add_all_reduce_cases(std::vector<CollectiveCase>& cases) {
  using namespace std::placeholders;  // the port, the rank, the size
  for (const DType dtype : kAllDTypes) {
    const std::string type(name_of(dtype));
    for (const ReduceOp op : kOps) {
      cases.push_back({"AllReduce_" + std::string(name_of(op)) + "_" + type,
                       std::bind(reduces_exactly, dtype, op, _1, _2, _3)});
    }
    cases.push_back(
        {"AllReduceAveragesByScale_" + type, std::bind(averages_by_scale, dtype, _1, _2, _3)});
    cases.push_back({"AllReduceOfManyOddSlices_" + type,
                     std::bind(reduces_many_odd_slices, dtype, _1, _2, _3)});
    if (!is_floating(dtype)) continue;
    cases.push_back(
        {"AllReduceAddsInRankOrder_" + type, std::bind(adds_in_rank_order, dtype, _1, _2, _3)});
    cases.push_back({"AllReduceIsBitwiseEqualOnAllRanks_" + type,
                     std::bind(is_bitwise_equal_on_all_ranks, dtype, _1, _2, _3)});
  }
  cases.push_back({"AllReduceRoundsOnce_float16",
                   std::bind(rounds_halves_once, DType::kF16, 2048.0, _1, _2, _3)});
  cases.push_back({"AllReduceRoundsOnce_bfloat16",
                   std::bind(rounds_halves_once, DType::kBF16, 256.0, _1, _2, _3)});
  cases.push_back({"AllReduceKeepsInputsOutOfPlace", keeps_inputs_out_of_place});
  cases.push_back({"AllReduceOfNothing", reduces_nothing});
  cases.push_back({"AllReduceOfSeveralMebibytes", reduces_several_mebibytes});
}

}  // namespace hvd::test
