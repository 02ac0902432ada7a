#include "core/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hvd {
namespace {

TEST(Float16, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(value))));
    } else {
      ASSERT_EQ(to_float16(value).bits, half.bits);
    }
  }
}

TEST(Float16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(to_float(to_float16(2049.0f)), 2048.0f);  // between 2048 and 2050
  EXPECT_EQ(to_float(to_float16(2051.0f)), 2052.0f);  // between 2050 and 2052
  EXPECT_EQ(to_float(to_float16(65519.0f)), 65504.0f);
  EXPECT_EQ(to_float(to_float16(65520.0f)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float16(0x1p-25f).bits, 0);  // half of the smallest: ties to even
  EXPECT_EQ(to_float16(0x1.8p-25f).bits, 1);
  EXPECT_EQ(to_float16(-0.0f).bits, 0x8000);
}

TEST(BFloat16, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const BFloat16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(value))));
    } else {
      ASSERT_EQ(to_bfloat16(value).bits, half.bits);
    }
  }
}

TEST(BFloat16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(to_float(to_bfloat16(257.0f)), 256.0f);
  EXPECT_EQ(to_float(to_bfloat16(259.0f)), 260.0f);
  EXPECT_EQ(to_float(to_bfloat16(3.39e38f)), 3.3895314e38f);
  EXPECT_EQ(to_float(to_bfloat16(3.4e38f)), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace hvd
