#include "ops/host/wire.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/base/half.h"
#include "core/base/status.h"

namespace hvd::engine::host {
namespace {

constexpr WireFormat kFormats[] = {WireFormat::kF16, WireFormat::kBF16, WireFormat::kInt8};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Bytes = std::vector<std::byte>;

std::vector<float> random_values(std::size_t count, unsigned seed, float magnitude = 1.0f) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-magnitude, magnitude);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

Bytes encoded(WireFormat format, const std::vector<float>& values, double prescale = 1.0,
              float* residual = nullptr, Isa isa = best_isa()) {
  const auto numel = static_cast<std::int64_t>(values.size());
  Bytes bytes(wire_bytes(format, numel), std::byte{0x5a});
  encode(format, DType::kF32, values.data(), prescale, residual, numel, bytes.data(), isa);
  return bytes;
}

std::vector<float> decoded(WireFormat format, const Bytes& bytes, std::size_t count,
                           Isa isa = best_isa()) {
  std::vector<float> values(count, -1.0f);
  decode(format, bytes.data(), DType::kF32, values.data(), static_cast<std::int64_t>(count), isa);
  return values;
}

std::vector<float> round_trip(WireFormat format, const std::vector<float>& values) {
  return decoded(format, encoded(format, values), values.size());
}

Bytes reduced(WireFormat format, const std::vector<Bytes>& inputs, std::size_t count,
              double postscale, Isa isa = best_isa()) {
  std::vector<const void*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  Bytes out(inputs[0].size(), std::byte{0x5a});
  reduce_encoded(format, pointers, static_cast<std::int64_t>(count), postscale, out.data(), isa);
  return out;
}

TEST(WireBytes, AreTwoAnElementOrOneAndAScaleForEach256) {
  EXPECT_EQ(wire_bytes(WireFormat::kF16, 1000), 2000u);
  EXPECT_EQ(wire_bytes(WireFormat::kBF16, 3), 8u);  // a multiple of 4
  EXPECT_EQ(wire_bytes(WireFormat::kInt8, 0), 0u);
  EXPECT_EQ(wire_bytes(WireFormat::kInt8, 1), 8u);
  EXPECT_EQ(wire_bytes(WireFormat::kInt8, 256), 260u);
  EXPECT_EQ(wire_bytes(WireFormat::kInt8, 257), 268u);
  EXPECT_EQ(wire_bytes(WireFormat::kInt8, 1 << 20), (1u << 20) + (1u << 14));
}

// -127 to 127 in every block, so that the scale is 1.
TEST(Wire, Int8KeepsWholeNumbersUnderAScaleOfOne) {
  for (const std::size_t count : {1u, 7u, 255u, 256u, 257u, 1000u}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(i % 255) - 127.0f;
      if (i % 256 == 0) values[i] = 127.0f;
    }
    EXPECT_EQ(round_trip(WireFormat::kInt8, values), values) << count;
  }
}

TEST(Wire, Int8RoundsTiesToEven) {
  const std::vector<float> values = {127.0f, 0.5f, 1.5f, -0.5f, -2.5f, 2.5000002f};
  const std::vector<float> expected = {127.0f, 0.0f, 2.0f, 0.0f, -2.0f, 3.0f};
  EXPECT_EQ(round_trip(WireFormat::kInt8, values), expected);
}

TEST(Wire, HalvesAreThoseOfTheScalarCode) {
  const auto values = random_values(1001, 3);
  const auto f16 = round_trip(WireFormat::kF16, values);
  const auto bf16 = round_trip(WireFormat::kBF16, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(f16[i], to_float(to_float16(values[i]))) << i;
    ASSERT_EQ(bf16[i], to_float(to_bfloat16(values[i]))) << i;
  }
}

// Each block has a scale of its own: a large element costs its neighbours precision, no others.
TEST(Wire, Int8ErrsByHalfAScaleOfItsBlockAtMost) {
  for (const float magnitude : {1e-30f, 1e-3f, 1.0f, 7e4f, 1e37f}) {
    auto values = random_values(2000, 11, magnitude);
    values[300] = 3 * magnitude;
    const auto back = round_trip(WireFormat::kInt8, values);
    bool rounded = false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float largest = i / 256 == 1 ? 3 * magnitude : magnitude;
      ASSERT_LE(std::fabs(back[i] - values[i]), largest / 254 * 1.0001f) << i;
      rounded |= back[i] != values[i];
    }
    EXPECT_TRUE(rounded);
    EXPECT_FLOAT_EQ(back[300], 3 * magnitude);
  }
}

TEST(Wire, Int8TurnsTinyBlocksIntoZerosAndNotIntoNan) {
  std::vector<float> values(300, 0x1p-149f);
  values[299] = -0x1p-120f;
  EXPECT_EQ(round_trip(WireFormat::kInt8, values), std::vector<float>(300, 0.0f));
  const float largest = std::numeric_limits<float>::max();
  EXPECT_FLOAT_EQ(round_trip(WireFormat::kInt8, {largest, 1.0f})[0], largest);
  EXPECT_FLOAT_EQ(round_trip(WireFormat::kInt8, {0x1p-119f})[0], 0x1p-119f);
}

TEST(Wire, NothingThatIsNotFiniteVanishes) {
  for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    for (const std::size_t where : {256u, 300u, 511u}) {
      auto values = random_values(700, 5);
      values[where] = bad;
      const auto back = round_trip(WireFormat::kInt8, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(std::isnan(back[i]), i / 256 == 1) << i << " with " << bad << " at " << where;
      }
      for (const WireFormat half : {WireFormat::kF16, WireFormat::kBF16}) {
        EXPECT_FALSE(std::isfinite(round_trip(half, values)[where]));
      }
    }
  }
  EXPECT_EQ(round_trip(WireFormat::kF16, {70000.0f})[0], kInfinity);
}

TEST(Wire, OneRanksNanReachesTheSum) {
  const auto good = encoded(WireFormat::kInt8, random_values(300, 1));
  auto values = random_values(300, 2);
  values[7] = std::nanf("");
  const auto sum = reduced(WireFormat::kInt8, {good, encoded(WireFormat::kInt8, values)}, 300, 0.5);
  const auto back = decoded(WireFormat::kInt8, sum, 300);
  EXPECT_TRUE(std::isnan(back[0]));
  EXPECT_FALSE(std::isnan(back[256]));
}

TEST(Wire, AppliesThePrescaleBeforeEncoding) {
  const std::vector<float> values = {254.0f, 2.0f, -8.0f};
  for (const WireFormat format : kFormats) {
    const auto back = decoded(format, encoded(format, values, 0.5), 3);
    EXPECT_EQ(back, (std::vector<float>{127.0f, 1.0f, -4.0f})) << name_of(format);
  }
}

TEST(Wire, TheResidualIsWhatTheEncodingLost) {
  for (const WireFormat format : kFormats) {
    const auto values = random_values(600, 21);
    const auto before = random_values(600, 22, 0.01f);
    auto residual = before;
    const auto back = decoded(format, encoded(format, values, 2.0, residual.data()), 600);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(residual[i], 2.0f * values[i] + before[i] - back[i]) << name_of(format) << i;
    }
  }
}

// 0.25 is lost each time under a scale of 1, until what was lost is worth a step.
TEST(Wire, WithAResidualSmallElementsArriveInTheLongRun) {
  const std::vector<float> values = {127.0f, 0.25f};
  std::vector<float> residual(2, 0.0f);
  float arrived = 0;
  for (int step = 0; step < 8; ++step) {
    arrived +=
        decoded(WireFormat::kInt8, encoded(WireFormat::kInt8, values, 1.0, residual.data()), 2)[1];
  }
  EXPECT_EQ(arrived, 2.0f);
}

TEST(Wire, AResidualForgetsWhatIsNotFinite) {
  for (const WireFormat format : kFormats) {
    std::vector<float> residual(3, 0.5f);
    encoded(format, {1.0f, std::nanf(""), kInfinity}, 1.0, residual.data());
    for (const float loss : residual) EXPECT_TRUE(std::isfinite(loss)) << name_of(format);
  }
}

TEST(Wire, F64GoesThroughF32) {
  const std::vector<double> values = {127.0, -3.0, 1.0 + 0x1p-40, 0x1p-3};
  for (const WireFormat format : kFormats) {
    Bytes bytes(wire_bytes(format, 4));
    encode(format, DType::kF64, values.data(), 1.0, nullptr, 4, bytes.data());
    std::vector<double> back(4);
    decode(format, bytes.data(), DType::kF64, back.data(), 4);
    const double eighth = format == WireFormat::kInt8 ? 0.0 : 0.125;
    EXPECT_EQ(back, (std::vector<double>{127.0, -3.0, 1.0, eighth})) << name_of(format);
  }
}

// The sums' largest elements are 127 and 254, so that the scales are 1 and 2.
TEST(Wire, ReducesToTheEncodedScaledSum) {
  const std::vector<float> a = {63.0f, 10.0f, -6.0f, 0.0f};
  const std::vector<float> b = {64.0f, 10.0f, 2.0f, 0.0f};
  for (const WireFormat format : {WireFormat::kF16, WireFormat::kBF16}) {
    const auto sum = reduced(format, {encoded(format, a), encoded(format, b)}, 4, 2.0);
    EXPECT_EQ(decoded(format, sum, 4), (std::vector<float>{254, 40, -8, 0})) << name_of(format);
  }
  const std::vector<float> c = {127.0f, 10.0f, -6.0f, 1.0f};
  const auto int8 = encoded(WireFormat::kInt8, c);
  EXPECT_EQ(decoded(WireFormat::kInt8, reduced(WireFormat::kInt8, {int8, int8}, 4, 1.0), 4),
            (std::vector<float>{254, 20, -12, 2}));
  EXPECT_EQ(decoded(WireFormat::kInt8, reduced(WireFormat::kInt8, {int8, int8}, 4, 0.5), 4), c);
}

// Encoding twice errs by half a scale twice: of each input, and of the result.
TEST(Wire, ReducedSumsStayWithinTheirBound) {
  constexpr std::size_t kRanks = 5;
  constexpr std::size_t kCount = 1500;
  std::vector<double> exact(kCount, 0.0);
  std::vector<Bytes> inputs;
  for (unsigned rank = 0; rank < kRanks; ++rank) {
    const auto values = random_values(kCount, rank);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += values[i];
    inputs.push_back(encoded(WireFormat::kInt8, values));
  }
  const auto back =
      decoded(WireFormat::kInt8, reduced(WireFormat::kInt8, inputs, kCount, 0.2), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_LE(std::fabs(back[i] - exact[i] / kRanks), 2.0 / 254 * 1.001) << i;
  }
}

// Half a unit in the last place of the big number is 8192: the small one is lost unless it meets
// the others first.
TEST(Wire, AddsInTheOrderOfItsInputs) {
  const auto big = encoded(WireFormat::kInt8, {127 * 0x1p31f});
  const auto small = encoded(WireFormat::kInt8, {127 * 0x1p6f});
  const auto lost = reduced(WireFormat::kInt8, {big, small, small, small, small}, 1, 1.0);
  const auto kept = reduced(WireFormat::kInt8, {small, small, small, small, big}, 1, 1.0);
  EXPECT_EQ(lost, big);
  EXPECT_NE(kept, big);
}

TEST(Wire, MayReduceOverAnyOneOfItsInputs) {
  for (const WireFormat format : kFormats) {
    std::vector<Bytes> inputs;
    for (unsigned rank = 0; rank < 3; ++rank) {
      inputs.push_back(encoded(format, random_values(777, rank)));
    }
    const Bytes apart = reduced(format, inputs, 777, 0.5);
    for (std::size_t target = 0; target < 3; ++target) {
      auto copies = inputs;
      const void* const pointers[] = {copies[0].data(), copies[1].data(), copies[2].data()};
      reduce_encoded(format, pointers, 777, 0.5, copies[target].data());
      EXPECT_EQ(copies[target], apart) << name_of(format) << " over " << target;
    }
  }
}

TEST(Wire, PiecesCutAtABlockAreThoseOfTheWhole) {
  const auto values = random_values(1000, 9);
  for (const WireFormat format : kFormats) {
    const Bytes whole = encoded(format, values);
    const std::size_t cut = wire_bytes(format, 512);
    const Bytes head = encoded(format, {values.begin(), values.begin() + 512});
    const Bytes tail = encoded(format, {values.begin() + 512, values.end()});
    EXPECT_EQ(head, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)));
    EXPECT_EQ(tail, Bytes(whole.begin() + static_cast<std::ptrdiff_t>(cut), whole.end()));
  }
}

TEST(Wire, NoByteIsLeftToChance) {
  for (const WireFormat format : kFormats) {
    const Bytes one = encoded(format, {1.0f});
    EXPECT_EQ(one.back(), std::byte{0}) << name_of(format);
    EXPECT_EQ(reduced(format, {one, one}, 1, 1.0).back(), std::byte{0}) << name_of(format);
  }
}

TEST(Wire, GivesTheSameBitsOnEveryInstructionSet) {
  std::mt19937_64 random(17);
  std::vector<float> values(5000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random()));  // of any magnitude
    if (i > 2000) values[i] = static_cast<float>(static_cast<std::int64_t>(random())) * 0x1p-63f;
  }
  for (const WireFormat format : kFormats) {
    std::vector<Bytes> codes;
    std::vector<Bytes> sums;
    std::vector<std::vector<std::uint32_t>> results;
    for (const Isa isa : {Isa::kBaseline, best_isa()}) {
      std::vector<float> residual(values.size(), 0.001f);
      codes.push_back(encoded(format, values, 0.7, residual.data(), isa));
      sums.push_back(reduced(format, {codes.back(), codes.back(), codes.back()}, 5000, 0.3, isa));
      auto& bits = results.emplace_back();
      for (const float value : decoded(format, sums.back(), 5000, isa)) {
        bits.push_back(std::bit_cast<std::uint32_t>(value));
      }
      for (const float value : residual) bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
    EXPECT_EQ(codes[0], codes[1]) << name_of(format);
    EXPECT_EQ(sums[0], sums[1]) << name_of(format);
    EXPECT_EQ(results[0], results[1]) << name_of(format);
  }
}

TEST(Wire, RefusesWhatHasNoEncoding) {
  float value = 1;
  std::byte out[16];
  EXPECT_THROW(wire_bytes(WireFormat::kNone, 1), InvalidArgumentError);
  EXPECT_THROW(encode(WireFormat::kNone, DType::kF32, &value, 1.0, nullptr, 1, out),
               InvalidArgumentError);
  EXPECT_THROW(encode(WireFormat::kF16, DType::kI32, &value, 1.0, nullptr, 1, out),
               InvalidArgumentError);
  EXPECT_THROW(decode(WireFormat::kInt8, out, DType::kBF16, &value, 1), InvalidArgumentError);
  EXPECT_THROW(reduce_encoded(WireFormat::kInt8, {}, 1, 1.0, out), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd::engine::host
