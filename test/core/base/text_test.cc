#include "core/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace hvd {
namespace {

using testing::ElementsAre;

TEST(ParseNumber, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<double>("0.5"), 0.5);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x", "99999999999"}) {
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<std::uint16_t>("65536"), std::nullopt);
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("a:", ':'), ElementsAre("a", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(NumberRanges, JoinThreeAndMoreInARow) {
  EXPECT_EQ(number_ranges({}, ", "), "");
  EXPECT_EQ(number_ranges(std::vector<int>{4}, ", "), "4");
  EXPECT_EQ(number_ranges(std::vector<int>{0, 1}, ", "), "0, 1");
  EXPECT_EQ(number_ranges(std::vector<int>{0, 1, 2, 3, 5, 7, 8, 9}, ", "), "0-3, 5, 7-9");
}

}  // namespace
}  // namespace hvd
