#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>

#include "core/base/half.h"
#include "core/base/status.h"
#include "ops/cuda/copy.h"
#include "ops/host/reduce.h"
#include "test/gpu/cases/guarded.h"

namespace hvd::engine {
namespace {

using test::Guarded;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t kNumels[] = {0, 1, 2, 3, 5, 15, 16, 17, 255, 1023, 4096, 4097, 33333};

// What the host makes of it, by ops/host.
Bytes scaled_on_host(DType dtype, const Bytes& in, std::int64_t numel, double factor) {
  Bytes out(in.size());
  const void* const inputs[] = {in.data()};
  host::reduce(dtype, dtype == DType::kBool ? ReduceOp::kMax : ReduceOp::kSum, inputs, out.data(),
               numel, 1.0, factor);
  return out;
}

template <typename T>
T element(const Bytes& bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

double value_of(DType dtype, const Bytes& bytes, std::int64_t i) {
  if (dtype == DType::kF16) return to_float(element<Float16>(bytes, i));
  if (dtype == DType::kBF16) return to_float(element<BFloat16>(bytes, i));
  if (dtype == DType::kF32) return element<float>(bytes, i);
  return element<double>(bytes, i);
}

template <typename T>
void put(Bytes& bytes, std::int64_t i, T value) {
  std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
}

// In f64 if one side is, else in f32.
Bytes converted_on_host(const CopyRule& rule, const Bytes& in, std::int64_t numel) {
  Bytes out(static_cast<std::size_t>(numel) * size_of(rule.to));
  const bool wide = rule.from == DType::kF64 || rule.to == DType::kF64;
  for (std::int64_t i = 0; i < numel; ++i) {
    const double value = value_of(rule.from, in, i);
    const double exact =
        wide ? value * rule.factor : static_cast<float>(value) * static_cast<float>(rule.factor);
    if (rule.to == DType::kF16) put(out, i, to_float16(static_cast<float>(exact)));
    if (rule.to == DType::kBF16) put(out, i, to_bfloat16(static_cast<float>(exact)));
    if (rule.to == DType::kF32) put(out, i, static_cast<float>(exact));
    if (rule.to == DType::kF64) put(out, i, exact);
  }
  return out;
}

Bytes on_host(const CopyRule& rule, const Bytes& in, std::int64_t numel) {
  if (rule.from == rule.to) return scaled_on_host(rule.from, in, numel, rule.factor);
  return converted_on_host(rule, in, numel);
}

struct Tensor {
  std::int64_t numel;
  Bytes in;
  Guarded from;
  Guarded to;
};

// A batch of many sizes, whose tensors begin at all kinds of places.
void expect_copies_right(const CopyRule& rule) {
  const std::size_t in_size = size_of(rule.from);
  const std::size_t out_size = size_of(rule.to);
  std::deque<Tensor> tensors;
  std::vector<CopyPiece> pieces;
  std::size_t number = 0;
  for (const std::int64_t numel : kNumels) {
    for (const std::size_t shift : {0u, 1u, 3u}) {
      const auto count = static_cast<std::size_t>(numel);
      const std::size_t other = number++ % 3;
      tensors.push_back({numel, test::random_elements(rule.from, numel, number),
                         Guarded(count * in_size, shift * in_size),
                         Guarded(count * out_size, other * out_size)});
      tensors.back().from.write(tensors.back().in);
      pieces.push_back({tensors.back().from.data(), tensors.back().to.data(), numel});
    }
  }
  copy_pieces(0, nullptr, rule, pieces);
  test::synchronize();
  for (const Tensor& tensor : tensors) {
    SCOPED_TRACE(std::string(name_of(rule.from)) + " to " + std::string(name_of(rule.to)) + ", " +
                 std::to_string(tensor.numel) + " elements, factor " + std::to_string(rule.factor));
    ASSERT_TRUE(tensor.to.read() == on_host(rule, tensor.in, tensor.numel));
    ASSERT_TRUE(tensor.to.is_intact());
    ASSERT_TRUE(tensor.from.read() == tensor.in);
  }
}

TEST(CopyPieces, EveryDtypeArrivesAsItIs) {
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    expect_copies_right({static_cast<DType>(dtype), static_cast<DType>(dtype), 1.0});
  }
}

TEST(CopyPieces, ScalesAreThoseOfTheHost) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (dtype == DType::kBool) continue;
    for (const double factor : {0.5, -3.7, 1e10}) expect_copies_right({dtype, dtype, factor});
  }
}

TEST(CopyPieces, FloatsConvertIntoEachOther) {
  const DType floats[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  for (const DType from : floats) {
    for (const DType to : floats) {
      if (from == to) continue;
      for (const double factor : {1.0, 0.3}) expect_copies_right({from, to, factor});
    }
  }
}

TEST(CopyPieces, ATensorMayBeScaledInPlace) {
  const Bytes in = test::random_elements(DType::kF32, 10001, 1);
  const Guarded memory(in.size(), 4);
  memory.write(in);
  const CopyPiece piece{memory.data(), memory.data(), 10001};
  copy_pieces(0, nullptr, {DType::kF32, DType::kF32, 0.1}, {&piece, 1});
  test::synchronize();
  EXPECT_TRUE(memory.read() == scaled_on_host(DType::kF32, in, 10001, 0.1));
  EXPECT_TRUE(memory.is_intact());
}

TEST(CopyPieces, MorePiecesThanALaunchHolds) {
  constexpr std::int64_t kPieces = 2 * CopyLaunch::kMostPieces + 7;
  const Bytes in = test::random_elements(DType::kI32, 3 * kPieces, 1);
  const Guarded from(in.size(), 0);
  const Guarded to(in.size(), 0);
  from.write(in);
  std::vector<CopyPiece> pieces;
  for (std::int64_t i = 0; i < kPieces; ++i) {
    pieces.push_back({from.data() + i * 12, to.data() + i * 12, 3});
  }
  copy_pieces(0, nullptr, {DType::kI32, DType::kI32, 1.0}, pieces);
  test::synchronize();
  EXPECT_TRUE(to.read() == in);
  EXPECT_TRUE(to.is_intact());
}

TEST(CopyPieces, NothingIsNoLaunch) {
  copy_pieces(0, nullptr, {}, {});
  const CopyPiece empty;
  copy_pieces(0, nullptr, {}, {&empty, 1});
  test::synchronize();
}

TEST(CopyPieces, WhatHasNoMeaningIsRefused) {
  const CopyPiece negative{nullptr, nullptr, -1};
  EXPECT_THROW(copy_pieces(0, nullptr, {}, {&negative, 1}), InvalidArgumentError);
  EXPECT_THROW(copy_pieces(0, nullptr, {DType::kI32, DType::kF32, 1.0}, {}), InvalidArgumentError);
  EXPECT_THROW(copy_pieces(0, nullptr, {DType::kBool, DType::kBool, 0.5}, {}),
               InvalidArgumentError);
}

}  // namespace
}  // namespace hvd::engine
