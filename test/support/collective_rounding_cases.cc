#include <gtest/gtest.h>

#include <cmath>

#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

constexpr DType kFloating[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// `big` + 1 is not a half, but big + size - 1 rounds well: who rounds each partial sum loses ones.
void rounds_halves_once(Collective& collective, Rank rank, int size) {
  for (const auto& [dtype, big] : {std::pair(DType::kF16, 2048.0), {DType::kBF16, 256.0}}) {
    Batch batch;
    batch.add(TypedArray(dtype, std::vector<double>(65, rank == 0 ? big : 1.0)));
    run_all_reduce(collective, batch);
    const TypedArray expected(dtype, std::vector<double>(65, big + size - 1));
    expect_same(batch.output(0), expected, "rounded once");
  }
}

template <typename Accumulator>
TypedArray sum_in_rank_order(DType dtype, int size, std::int64_t numel) {
  const std::vector<TypedArray> inputs = wild_numbers_of_all(dtype, size, numel);
  return make_array(dtype, numel, [&](std::int64_t i) {
    auto sum = static_cast<Accumulator>(inputs[0].at(i));
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      sum += static_cast<Accumulator>(inputs[rank].at(i));
    }
    return static_cast<double>(sum);
  });
}

void adds_in_rank_order(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 2'011;
  for (const DType dtype : kFloating) {
    Batch batch;
    batch.add(wild_numbers(dtype, rank, kNumel));
    run_all_reduce(collective, batch);
    const TypedArray expected = dtype == DType::kF64
                                    ? sum_in_rank_order<double>(dtype, size, kNumel)
                                    : sum_in_rank_order<float>(dtype, size, kNumel);
    expect_same(batch.output(0), expected, "added in rank order");
  }
}

// Half a unit in the last place of the result, and what f32 loses on the way.
void bounds_the_rounding_of_halves(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 3'000;
  for (const auto& [dtype, half_unit] : {std::pair(DType::kF16, 0x1p-11), {DType::kBF16, 0x1p-8}}) {
    const std::vector<TypedArray> inputs = wild_numbers_of_all(dtype, size, kNumel);
    Batch batch;
    batch.add(wild_numbers(dtype, rank, kNumel));
    run_all_reduce(collective, batch, {.prescale = 0.7});
    for (std::int64_t i = 0; i < kNumel; ++i) {
      double exact = 0;
      double magnitude = 0;
      for (const TypedArray& input : inputs) {
        exact += 0.7 * input.at(i);
        magnitude += std::abs(input.at(i));
      }
      const double in_f32 = magnitude * (size + 2) * 0x1p-24;
      const double below_normal = 0x1p-25;
      ASSERT_NEAR(batch.output(0).at(i), exact,
                  (std::abs(exact) + in_f32) * half_unit + in_f32 + below_normal)
          << name_of(dtype) << " at " << i;
    }
  }
}

// 1/3 and 1/7 are no binary fractions: scaling must not differ between ranks either.
void is_bitwise_equal_on_all_ranks(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 1'501;
  for (const DType dtype :
       {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kC64, DType::kC128}) {
    Batch batch;
    batch.add(wild_numbers(dtype, rank, kNumel), /*in_place=*/true);
    run_all_reduce(collective, batch, {.prescale = 1.0 / 3.0});
    run_all_reduce(collective, batch, {.postscale = 1.0 / 7.0});
    const TypedArray& mine = batch.output(0);
    const TypedArray all = gathered(collective, mine, size);
    for (std::int64_t i = 0; i < all.numel(); ++i) {
      ASSERT_EQ(all.complex_at(i), mine.complex_at(i % kNumel))
          << "element " << i % kNumel << " of rank " << i / kNumel;
    }
  }
}

}  // namespace

void add_rounding_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"AllReduceRoundsHalvesOnce", rounds_halves_once});
  cases.push_back({"AllReduceAddsInRankOrder", adds_in_rank_order});
  cases.push_back({"AllReduceBoundsTheRoundingOfHalves", bounds_the_rounding_of_halves});
  cases.push_back({"AllReduceIsBitwiseEqualOnAllRanks", is_bitwise_equal_on_all_ranks});
}

}  // namespace hvd::engine::test
