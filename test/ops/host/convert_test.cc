#include "ops/host/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace hvd::engine::host {
namespace {

class Convert : public testing::TestWithParam<Isa> {};

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

std::uint32_t quiet_bits_of(float value) {
  return bits_of(value) | (std::isnan(value) ? 0x00400000u : 0u);
}

template <typename Half>
void expect_all_halves_widen(Isa isa) {
  std::vector<Half> in(0x10000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> out(in.size());
  to_float(in.data(), out.data(), static_cast<std::int64_t>(in.size()), isa);
  for (std::size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(bits_of(out[i]), quiet_bits_of(hvd::to_float(in[i]))) << "half " << i;
  }
}

TEST_P(Convert, WidensEveryHalfAsTheScalarCodeDoes) {
  expect_all_halves_widen<Float16>(GetParam());
  expect_all_halves_widen<BFloat16>(GetParam());
}

// Every half, the ties between it and the next one, their neighbours, and random bits.
std::vector<float> difficult_floats() {
  std::vector<float> values;
  const auto add_around = [&](float value) {
    for (const std::uint32_t step : {0u, 1u, 2u}) {
      values.push_back(std::bit_cast<float>(bits_of(value) + step));
      values.push_back(std::bit_cast<float>(bits_of(value) - step));
    }
  };
  for (std::uint32_t i = 0; i < 0x10000u; ++i) {
    const Float16 half{static_cast<std::uint16_t>(i)};
    const Float16 next{static_cast<std::uint16_t>(i + 1)};
    add_around(hvd::to_float(half));
    add_around((hvd::to_float(half) + hvd::to_float(next)) / 2);
    add_around(std::bit_cast<float>((i << 16) | 0x8000u));
  }
  std::mt19937 random(3);
  for (int i = 0; i < 300'000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  }
  return values;
}

TEST_P(Convert, NarrowsEveryFloatAsTheScalarCodeDoes) {
  const std::vector<float> in = difficult_floats();
  const auto count = static_cast<std::int64_t>(in.size());
  std::vector<Float16> f16(in.size());
  std::vector<BFloat16> bf16(in.size());
  from_float(in.data(), f16.data(), count, GetParam());
  from_float(in.data(), bf16.data(), count, GetParam());
  for (std::size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(f16[i].bits, to_float16(in[i]).bits) << std::hex << bits_of(in[i]);
    ASSERT_EQ(bf16[i].bits, to_bfloat16(in[i]).bits) << std::hex << bits_of(in[i]);
  }
}

TEST_P(Convert, TouchesExactlyTheElementsItWasGiven) {
  for (std::int64_t count = 0; count <= 33; ++count) {
    std::vector<Float16> halves(34, to_float16(3.0f));
    std::vector<float> floats(34, -1.0f);
    to_float(halves.data(), floats.data(), count, GetParam());
    const std::vector<float> ones(34, 1.0f);
    from_float(ones.data(), halves.data(), count, GetParam());
    for (std::int64_t i = 0; i < 34; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ASSERT_EQ(floats[at], i < count ? 3.0f : -1.0f) << i << " of " << count;
      ASSERT_EQ(hvd::to_float(halves[at]), i < count ? 1.0f : 3.0f) << i << " of " << count;
    }
  }
}

// Those with code of their own that this processor runs.
std::vector<Isa> isas_here() {
  if (best_isa() == Isa::kBaseline) return {Isa::kBaseline};
  return {Isa::kBaseline, Isa::kV3};
}

INSTANTIATE_TEST_SUITE_P(Isas, Convert, testing::ValuesIn(isas_here()), [](const auto& given) {
  return std::string(given.param == Isa::kBaseline ? "Baseline" : "Avx2");
});

}  // namespace
}  // namespace hvd::engine::host
