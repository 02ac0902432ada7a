#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

constexpr WireFormat kLossy[] = {WireFormat::kF16, WireFormat::kBF16, WireFormat::kInt8};
constexpr DType kDTypes[] = {DType::kF32, DType::kF64};

// The most that encoding loses of one number in a slice whose largest one is `largest`.
double loss(WireFormat wire, double value, double largest) {
  switch (wire) {
    case WireFormat::kF16:
      return std::abs(value) * 0x1p-11 + 0x1p-25;
    case WireFormat::kBF16:
      return std::abs(value) * 0x1p-8;
    default:
      return largest / 127 / 2;
  }
}

// `magnitude` at most; no slice is like another.
TypedArray random_input(DType dtype, Rank rank, int slice, std::int64_t numel, double magnitude) {
  const TypedArray numbers = wild_numbers(DType::kF32, rank * 8 + slice, numel);
  return make_array(dtype, numel, [&](std::int64_t i) {
    return static_cast<float>(numbers.at(i) / 32 * magnitude);
  });
}

// What element i of a slice may lose between the ranks: in every contribution, and once more
// should the sum be encoded again.
struct Expectation {
  double sum = 0;
  double bound = 0;
};

Expectation expectation(WireFormat wire, const std::vector<TypedArray>& inputs, std::int64_t i,
                        double magnitude) {
  Expectation expected;
  double absolute = 0;
  for (const TypedArray& input : inputs) {
    expected.sum += input.at(i);
    absolute += std::abs(input.at(i));
    expected.bound += loss(wire, input.at(i), magnitude);
  }
  const auto ranks = static_cast<double>(inputs.size());
  expected.bound += loss(wire, absolute, ranks * magnitude);
  expected.bound = 1.02 * expected.bound + absolute * ranks * 0x1p-22;
  return expected;
}

std::vector<TypedArray> inputs_of_all(DType dtype, int size, int slice, std::int64_t numel,
                                      double magnitude) {
  std::vector<TypedArray> all;
  for (Rank rank = 0; rank < size; ++rank) {
    all.push_back(random_input(dtype, rank, slice, numel, magnitude));
  }
  return all;
}

constexpr std::int64_t kLengths[] = {1, 0, 255, 257, 1'000};
// A slice of small numbers does not suffer from large ones beside it.
constexpr double kMagnitudes[] = {1, 1, 1000, 0.001, 4};

void loses_no_more_than_its_format(WireFormat wire, Collective& collective, Rank rank, int size) {
  for (const DType dtype : kDTypes) {
    Batch batch;
    for (int n = 0; n < 5; ++n) {
      batch.add(random_input(dtype, rank, n, kLengths[n], kMagnitudes[n]), n % 2 == 1);
    }
    run_all_reduce(collective, batch, {.prescale = 0.5, .postscale = 0.25, .wire = wire});
    for (int n = 0; n < 5; ++n) {
      const auto inputs = inputs_of_all(dtype, size, n, kLengths[n], kMagnitudes[n]);
      for (std::int64_t i = 0; i < kLengths[n]; ++i) {
        const Expectation expected = expectation(wire, inputs, i, kMagnitudes[n]);
        const double tiny = 0x1p-24;  // f16 below its normal numbers
        ASSERT_NEAR(batch.output(static_cast<std::size_t>(n)).at(i), expected.sum / 8,
                    expected.bound / 8 + tiny * size)
            << name_of(wire) << ", slice " << n << ", element " << i;
      }
    }
  }
}

void is_exact_for_small_integers(Collective& collective, Rank rank, int size) {
  for (const WireFormat wire : {WireFormat::kNone, WireFormat::kF16, WireFormat::kBF16}) {
    for (const DType dtype : kDTypes) {
      Batch batch;
      batch.add(contributions(ReduceOp::kSum, dtype, rank, 1'300));
      batch.add_nothing(dtype);
      batch.add(contributions(ReduceOp::kSum, dtype, rank, 17), true);
      run_all_reduce(collective, batch, {.prescale = 2, .postscale = 0.5, .wire = wire});
      for (std::size_t i = 0; i < 3; ++i) {
        const std::int64_t numel = batch.output(i).numel();
        expect_same(batch.output(i), combination(ReduceOp::kSum, dtype, size, numel),
                    "the sum as " + std::string(name_of(wire)));
      }
    }
  }
}

void sends_zeros_as_zeros(Collective& collective, Rank, int) {
  for (const WireFormat wire : kLossy) {
    Batch batch;
    batch.add(TypedArray(DType::kF32, 600));
    batch.add_residual(0);
    run_all_reduce(collective, batch, {.wire = wire});
    for (std::int64_t i = 0; i < 600; ++i) ASSERT_EQ(batch.output(0).at(i), 0);
  }
}

void is_bitwise_equal_on_all_ranks(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 1'999;
  for (const WireFormat wire : kLossy) {
    Batch batch;
    batch.add(random_input(DType::kF32, rank, 0, kNumel, 1));
    batch.add_residual(0);
    run_all_reduce(collective, batch, {.postscale = 1.0 / 3.0, .wire = wire});
    const TypedArray all = gathered(collective, batch.output(0), size);
    for (std::int64_t i = 0; i < all.numel(); ++i) {
      ASSERT_EQ(all.at(i), batch.output(0).at(i % kNumel)) << "rank " << i / kNumel;
    }
  }
}

// The same numbers step after step: without feedback the same would be lost each time. With it, all
// that is missing from the outputs' sum is what the residuals hold, however many steps were made.
void feedback_makes_up_for_losses(WireFormat wire, Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 300;
  constexpr int kSteps = 40;
  for (const DType dtype : kDTypes) {
    const TypedArray mine = random_input(dtype, rank, 0, kNumel, 1);
    Batch batch;
    batch.add(mine);
    batch.add_residual(0);
    std::vector<double> sum(kNumel);
    for (int step = 0; step < kSteps; ++step) {
      run_all_reduce(collective, batch, {.wire = wire});
      const std::vector<double> output = batch.output(0).values();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += output[i];
    }
    expect_same(batch.input(0), mine, "the input");
    const auto inputs = inputs_of_all(dtype, size, 0, kNumel, 1);
    for (std::int64_t i = 0; i < kNumel; ++i) {
      const Expectation once = expectation(wire, inputs, i, 1.2);
      const double rounding = kSteps * size * 0x1p-21;  // of the sums in f32
      ASSERT_NEAR(sum[static_cast<std::size_t>(i)], kSteps * once.sum, 2 * once.bound + rounding)
          << name_of(wire) << ", " << name_of(dtype) << ", element " << i;
    }
  }
}

// A residual from before, say from a larger world, is not forgotten.
void adds_the_residual(Collective& collective, Rank, int size) {
  for (const WireFormat wire : kLossy) {
    Batch batch;
    batch.add(TypedArray(DType::kF32, 300));
    batch.add_residual(0);
    std::fill_n(batch.slices()[0].residual, 300, 127.0f);
    run_all_reduce(collective, batch, {.wire = wire});
    for (std::int64_t i = 0; i < 300; ++i) {
      ASSERT_NEAR(batch.output(0).at(i), 127.0 * size, 0.6 * size) << name_of(wire);
      ASSERT_NEAR(batch.slices()[0].residual[i], 0, 0.6 * size) << name_of(wire);
    }
  }
}

std::size_t bytes_as(WireFormat wire, Collective& collective, Rank rank) {
  Batch batch;
  batch.add(contributions(ReduceOp::kSum, DType::kF32, rank, 100'000));
  const auto operation = collective.all_reduce(batch.slices(), {.wire = wire});
  finish(*operation, collective);
  return operation->stats().packed_bytes;
}

void counts_fewer_bytes(Collective& collective, Rank rank, int size) {
  const auto plain = static_cast<double>(bytes_as(WireFormat::kNone, collective, rank));
  const auto f16 = static_cast<double>(bytes_as(WireFormat::kF16, collective, rank));
  const auto bf16 = static_cast<double>(bytes_as(WireFormat::kBF16, collective, rank));
  const auto int8 = static_cast<double>(bytes_as(WireFormat::kInt8, collective, rank));
  if (size == 1) return;  // nothing travels, whatever is counted
  EXPECT_NEAR(plain, 400'000, 4'000);
  EXPECT_NEAR(f16, 200'000, 2'000);
  EXPECT_NEAR(bf16, 200'000, 2'000);
  EXPECT_LE(int8, plain / 3.8);
  EXPECT_GE(int8, 100'000);
}

}  // namespace

void add_wire_cases(std::vector<CollectiveCase>& cases) {
  using namespace std::placeholders;
  for (const WireFormat wire : kLossy) {
    const std::string format(name_of(wire));
    cases.push_back({"WireLosesNoMoreThanItsFormat_" + format,
                     std::bind(loses_no_more_than_its_format, wire, _1, _2, _3)});
    cases.push_back({"WireFeedbackMakesUpForLosses_" + format,
                     std::bind(feedback_makes_up_for_losses, wire, _1, _2, _3)});
  }
  cases.push_back({"WireIsExactForSmallIntegers", is_exact_for_small_integers});
  cases.push_back({"WireSendsZerosAsZeros", sends_zeros_as_zeros});
  cases.push_back({"WireIsBitwiseEqualOnAllRanks", is_bitwise_equal_on_all_ranks});
  cases.push_back({"WireAddsTheResidual", adds_the_residual});
  cases.push_back({"WireCountsFewerBytes", counts_fewer_bytes});
}

}  // namespace hvd::engine::test
