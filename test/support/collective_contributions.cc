#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

bool is_signed(DType dtype) {
  return dtype != DType::kU8 && dtype != DType::kU16 && dtype != DType::kBool;
}

double summand(DType dtype, Rank rank, std::int64_t i) {
  const auto number = static_cast<double>((rank * 5 + i * 7) % 11);
  return is_signed(dtype) ? number - 5 : number;
}

double factor(DType dtype, Rank rank, std::int64_t i) {
  const double magnitude = (rank + i) % 4 == 0 ? 2 : 1;
  return is_signed(dtype) && (rank * 3 + i) % 5 == 0 ? -magnitude : magnitude;
}

std::int64_t bits(std::complex<double> value) {
  return static_cast<std::int64_t>(value.real());
}

std::complex<double> combine(ReduceOp op, std::complex<double> a, std::complex<double> b) {
  switch (op) {
    case ReduceOp::kMin:
      return std::min(a.real(), b.real());
    case ReduceOp::kMax:
      return std::max(a.real(), b.real());
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kBitAnd:
      return static_cast<double>(bits(a) & bits(b));
    case ReduceOp::kBitOr:
      return static_cast<double>(bits(a) | bits(b));
    default:
      return a + b;
  }
}

}  // namespace

std::complex<double> contribution(ReduceOp op, DType dtype, Rank rank, std::int64_t i) {
  if (dtype == DType::kBool) return i % (rank + 2) != 0 ? 1 : 0;
  const auto bit = static_cast<double>(1 << ((rank + i) % 7));
  switch (op) {
    case ReduceOp::kProduct:
      return {factor(dtype, rank, i), (rank + i) % 3 == 0 ? 1.0 : 0.0};
    case ReduceOp::kBitAnd:
      return 127 - bit;
    case ReduceOp::kBitOr:
      return bit;
    default:
      return {summand(dtype, rank, i), summand(dtype, rank, i + 3)};
  }
}

TypedArray contributions(ReduceOp op, DType dtype, Rank rank, std::int64_t numel) {
  return make_periodic(dtype, numel, kPeriod,
                       [&](std::int64_t i) { return contribution(op, dtype, rank, i); });
}

std::complex<double> combined(ReduceOp op, DType dtype, int size, std::int64_t i) {
  const auto mine = [&](Rank rank) {
    const std::complex<double> value = contribution(op, dtype, rank, i % kPeriod);
    return is_complex(dtype) ? value : value.real();
  };
  std::complex<double> value = mine(0);
  for (Rank rank = 1; rank < size; ++rank) value = combine(op, value, mine(rank));
  return value;
}

TypedArray combination(ReduceOp op, DType dtype, int size, std::int64_t numel) {
  return make_periodic(dtype, numel, kPeriod,
                       [&](std::int64_t i) { return combined(op, dtype, size, i); });
}

TypedArray wild_numbers(DType dtype, Rank rank, std::int64_t numel) {
  std::mt19937 random(static_cast<unsigned>(rank) + 17);
  std::uniform_real_distribution<double> mantissa(-1.0, 1.0);
  const auto draw = [&] {
    return std::ldexp(mantissa(random), static_cast<int>(random() % 12) - 6);
  };
  return make_array(dtype, numel, [&](std::int64_t) {
    const double real = draw();
    return std::complex<double>(real, draw());
  });
}

std::vector<TypedArray> wild_numbers_of_all(DType dtype, int size, std::int64_t numel) {
  std::vector<TypedArray> all;
  for (Rank rank = 0; rank < size; ++rank) all.push_back(wild_numbers(dtype, rank, numel));
  return all;
}

TypedArray marked_array(DType dtype, Rank rank, std::int64_t slice, std::int64_t numel) {
  constexpr std::int64_t kMarks = 127;
  return make_periodic(dtype, numel, kMarks, [&](std::int64_t i) {
    const auto mark = static_cast<double>((rank * 31 + slice * 17 + i) % kMarks);
    return std::complex<double>(mark, 127 - mark);
  });
}

}  // namespace hvd::engine::test
