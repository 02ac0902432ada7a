#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "test/support/collective_cases.h"
#include "test/support/reduce_ops.h"

namespace hvd::engine::test {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum,     ReduceOp::kMin,    ReduceOp::kMax,
                             ReduceOp::kProduct, ReduceOp::kBitAnd, ReduceOp::kBitOr};

bool has(DType dtype, ReduceOp op) {
  const std::vector<ReduceOp> ops = elementwise_ops(dtype);
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

void expect_combined(const TypedArray& output, ReduceOp op, int size) {
  expect_same(output, combination(op, output.dtype(), size, output.numel()),
              std::string(name_of(op)) + " over " + std::to_string(size));
}

void reduces_exactly(ReduceOp op, Collective& collective, Rank rank, int size) {
  for (const DType dtype : kAllDTypes) {
    if (!has(dtype, op)) continue;
    Batch batch;
    batch.add(contributions(op, dtype, rank, 517));
    batch.add_nothing(dtype);
    batch.add(contributions(op, dtype, rank, 1), /*in_place=*/true);
    batch.add(contributions(op, dtype, rank, 1003), /*in_place=*/true);
    run_all_reduce(collective, batch, {.op = op});
    for (std::size_t i = 0; i < 4; ++i) expect_combined(batch.output(i), op, size);
    expect_same(batch.input(0), contributions(op, dtype, rank, 517), "the input");
  }
}

bool is_integer(DType dtype) {
  return !is_floating(dtype) && !is_complex(dtype) && dtype != DType::kBool;
}

std::complex<double> scaled(DType dtype, std::complex<double> value, double factor) {
  return is_integer(dtype) ? std::trunc(value.real() * factor) : value * factor;
}

// Numbers that the prescale doubles and the postscale takes a quarter of: halves, which integers
// lose.
void scales_before_and_after(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 203;
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
      if (dtype == DType::kBool || !has(dtype, op)) continue;
      Batch batch;
      batch.add(contributions(op, dtype, rank, kNumel), rank % 2 == 1);
      run_all_reduce(collective, batch, {.op = op, .prescale = 2, .postscale = 0.25});
      const auto expected = [&](std::int64_t i) {
        return scaled(dtype, 2.0 * combined(op, dtype, size, i), 0.25);
      };
      expect_same(batch.output(0), make_array(dtype, kNumel, expected), "scaled");
    }
  }
}

// Who scaled the result instead would get (x/2)^size wrong, and integers do not lose their halves.
void scales_each_factor_of_a_product(Collective& collective, Rank, int size) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    Batch batch;
    batch.add(make_array(dtype, 65, [](std::int64_t i) { return i % 2 == 0 ? 2 : 3; }));
    run_all_reduce(collective, batch, {.op = ReduceOp::kProduct, .prescale = 0.5, .postscale = 2});
    const auto expected = [&](std::int64_t i) {
      const double each = i % 2 == 0 || is_integer(dtype) ? 1.0 : 1.5;
      return 2 * std::pow(each, size);
    };
    if (dtype == DType::kBF16 && size > 4) continue;  // 1.5^5 has 8 bits and is rounded after that
    expect_same(batch.output(0), make_array(dtype, 65, expected), "each factor halved");
  }
}

double unit_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-10;
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF32:
    case DType::kC64:
      return 0x1p-22;
    default:
      return 0x1p-51;
  }
}

void averages_by_postscale(Collective& collective, Rank rank, int size) {
  const double scale = 1.0 / size;
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    Batch batch;
    batch.add(contributions(ReduceOp::kSum, dtype, rank, 517));
    run_all_reduce(collective, batch, {.postscale = scale});
    for (std::int64_t i = 0; i < 517; ++i) {
      const std::complex<double> sum = combined(ReduceOp::kSum, dtype, size, i);
      const std::complex<double> actual = batch.output(0).complex_at(i);
      if (is_integer(dtype)) {
        ASSERT_EQ(actual, scaled(dtype, sum, scale)) << name_of(dtype) << " at " << i;
      } else {
        ASSERT_LE(std::abs(actual - sum * scale), std::abs(sum * scale) * unit_of(dtype))
            << name_of(dtype) << " at " << i;
      }
    }
  }
}

void reduces_many_odd_slices(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kSlices = 40;
  for (const DType dtype : kAllDTypes) {
    Batch batch;
    for (std::int64_t n = 0; n < kSlices; ++n) {
      if (n % 13 == 5) {
        batch.add_nothing(dtype);
      } else {
        batch.add(contributions(ReduceOp::kSum, dtype, rank, n * n % 97), n % 3 == 0);
      }
    }
    run_all_reduce(collective, batch);
    for (std::size_t n = 0; n < kSlices; ++n) {
      expect_combined(batch.output(n), ReduceOp::kSum, size);
    }
  }
}

void reduces_here_to_the_same_bits(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 301;
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (const DType dtype : kAllDTypes) {
    if (!is_floating(dtype) && !is_complex(dtype)) continue;
    const std::vector<TypedArray> all = wild_numbers_of_all(dtype, size, kNumel);
    std::vector<const void*> inputs;
    for (const TypedArray& each : all) inputs.push_back(each.data());
    for (const Reduction& reduction :
         {Reduction{}, Reduction{.op = ReduceOp::kSum, .prescale = 0.7, .postscale = 1.0 / 3},
          Reduction{.op = ReduceOp::kProduct, .prescale = 0.7}}) {
      Batch batch;
      batch.add(all[static_cast<std::size_t>(rank)]);
      run_all_reduce(collective, batch, reduction);
      TypedArray here(dtype, kNumel);
      if (!collective.reduce_here(ranks, inputs, dtype, kNumel, reduction, here.data())) continue;
      EXPECT_EQ(here, batch.output(0)) << name_of(reduction.op) << " of " << name_of(dtype);
    }
  }
}

void reduces_nothing(Collective& collective, Rank, int) {
  run_all_reduce(collective, Batch());
  Batch empty;
  empty.add_nothing(DType::kF32);
  run_all_reduce(collective, empty, {.postscale = 0.5});
  EXPECT_EQ(empty.output(0).numel(), 0);
}

void reduces_several_mebibytes(Collective& collective, Rank rank, int size) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kC128}) {
    Batch batch;
    batch.add(contributions(ReduceOp::kSum, dtype, rank, 1'300'003), true);
    batch.add(contributions(ReduceOp::kSum, dtype, rank, 5));
    batch.add(contributions(ReduceOp::kSum, dtype, rank, 700'001));
    run_all_reduce(collective, batch);
    for (std::size_t i = 0; i < 3; ++i) expect_combined(batch.output(i), ReduceOp::kSum, size);
  }
}

}  // namespace

void add_all_reduce_cases(std::vector<CollectiveCase>& cases) {
  using namespace std::placeholders;  // the port, the rank, the size
  for (const ReduceOp op : kOps) {
    cases.push_back(
        {"AllReduce_" + std::string(name_of(op)), std::bind(reduces_exactly, op, _1, _2, _3)});
  }
  cases.push_back({"AllReduceScalesBeforeAndAfter", scales_before_and_after});
  cases.push_back({"AllReduceScalesEachFactorOfAProduct", scales_each_factor_of_a_product});
  cases.push_back({"AllReduceAveragesByPostscale", averages_by_postscale});
  cases.push_back({"AllReduceOfManyOddSlices", reduces_many_odd_slices});
  cases.push_back({"AllReduceHereHasTheSameBits", reduces_here_to_the_same_bits});
  cases.push_back({"AllReduceOfNothing", reduces_nothing});
  cases.push_back({"AllReduceOfSeveralMebibytes", reduces_several_mebibytes});
}

}  // namespace hvd::engine::test
