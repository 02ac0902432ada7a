#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

constexpr DType kFloating[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
constexpr Reduction kAdasum = {.op = ReduceOp::kAdasum};

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Vector adasum_of_two(const Vector& a, const Vector& b) {
  const double aa = dot(a, a);
  const double bb = dot(b, b);
  const double ab = dot(a, b);
  const double of_a = aa == 0 ? 1 : 1 - ab / (2 * aa);
  const double of_b = bb == 0 ? 1 : 1 - ab / (2 * bb);
  Vector sum(a.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = of_a * a[i] + of_b * b[i];
  return sum;
}

// The first 2^k ranks, as many as leave some, with the rest.
Vector adasum(std::span<const Vector> inputs) {
  if (inputs.size() == 1) return inputs[0];
  const std::size_t first = std::bit_floor(inputs.size() - 1);
  return adasum_of_two(adasum(inputs.first(first)), adasum(inputs.subspan(first)));
}

Vector scaled(Vector values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

// Of one element, against the largest input: each level rounds once or twice.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-7;
    case DType::kBF16:
      return 0x1p-4;
    case DType::kF32:
      return 0x1p-19;
    default:
      return 0x1p-40;
  }
}

void expect_near(const TypedArray& actual, const Vector& expected, double bound) {
  ASSERT_EQ(actual.numel(), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual.at(static_cast<std::int64_t>(i)), expected[i], bound)
        << name_of(actual.dtype()) << ", element " << i;
  }
}

// Of the same magnitude as `wild_numbers`, but no slice like another.
TypedArray input_of(DType dtype, Rank rank, std::int64_t slice, std::int64_t numel) {
  const TypedArray numbers = wild_numbers(dtype, rank * 8 + static_cast<Rank>(slice), numel);
  return make_array(dtype, numel, [&](std::int64_t i) {
    return numbers.at(i) + 0.5 * static_cast<double>(slice + 1);  // they point the same way a bit
  });
}

void is_that_of_the_plain_formula(Collective& collective, Rank rank, int size) {
  const std::vector<std::int64_t> lengths = {300, 0, 3, 501};
  for (const DType dtype : kFloating) {
    Batch batch;
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      batch.add(input_of(dtype, rank, static_cast<std::int64_t>(n), lengths[n]), n % 2 == 1);
    }
    run_all_reduce(collective, batch, {.op = ReduceOp::kAdasum, .prescale = 2, .postscale = 0.25});
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      std::vector<Vector> inputs;
      for (Rank each = 0; each < size; ++each) {
        inputs.push_back(input_of(dtype, each, static_cast<std::int64_t>(n), lengths[n]).values());
      }
      const double largest = 3.5 * size;
      expect_near(batch.output(n), scaled(adasum(inputs), 0.5), largest * tolerance(dtype));
    }
  }
}

void adds_orthogonal_vectors(Collective& collective, Rank rank, int size) {
  for (const DType dtype : kFloating) {
    Batch batch;
    batch.add(make_array(dtype, 301, [&](std::int64_t i) {
      return i % size == rank ? static_cast<double>(1 + i % 16) : 0;
    }));
    run_all_reduce(collective, batch, kAdasum);
    const auto sum = [](std::int64_t i) { return static_cast<double>(1 + i % 16); };
    expect_same(batch.output(0), make_array(dtype, 301, sum), "the sum");
  }
}

void keeps_what_all_ranks_have(Collective& collective, Rank, int) {
  for (const DType dtype : kFloating) {
    const auto common = [](std::int64_t i) { return static_cast<double>(i % 16 - 8); };
    Batch batch;
    batch.add(make_array(dtype, 130, common));
    run_all_reduce(collective, batch, kAdasum);
    expect_same(batch.output(0), make_array(dtype, 130, common), "the common vector");
  }
}

void passes_zeros_through(Collective& collective, Rank rank, int size) {
  for (const DType dtype : kFloating) {
    Batch batch;
    batch.add(rank == size - 1 ? wild_numbers(dtype, 0, 77) : TypedArray(dtype, 77));
    batch.add(TypedArray(dtype, 9));
    run_all_reduce(collective, batch, kAdasum);
    for (std::int64_t i = 0; i < 77; ++i) {
      ASSERT_EQ(batch.output(0).at(i), wild_numbers(dtype, 0, 77).at(i)) << "element " << i;
    }
    for (std::int64_t i = 0; i < 9; ++i) ASSERT_EQ(batch.output(1).at(i), 0);
  }
}

void is_bitwise_equal_on_all_ranks(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 1'003;
  for (const DType dtype : kFloating) {
    Batch batch;
    batch.add(wild_numbers(dtype, rank, kNumel));
    run_all_reduce(collective, batch, kAdasum);
    const TypedArray all = gathered(collective, batch.output(0), size);
    for (std::int64_t i = 0; i < all.numel(); ++i) {
      ASSERT_EQ(all.at(i), batch.output(0).at(i % kNumel)) << "rank " << i / kNumel;
    }
  }
}

}  // namespace

void add_adasum_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"AdasumIsThatOfThePlainFormula", is_that_of_the_plain_formula});
  cases.push_back({"AdasumAddsOrthogonalVectors", adds_orthogonal_vectors});
  cases.push_back({"AdasumKeepsWhatAllRanksHave", keeps_what_all_ranks_have});
  cases.push_back({"AdasumPassesZerosThrough", passes_zeros_through});
  cases.push_back({"AdasumIsBitwiseEqualOnAllRanks", is_bitwise_equal_on_all_ranks});
}

}  // namespace hvd::engine::test
