#include "ops/host/streaming_copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvd::engine::host {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::size_t kLengths[] = {0, 1, 15, 63, 64, 65, 79, 511, 640, 2047, 2500};
constexpr std::size_t kPlaces[] = {0, 1, 4, 15, 16, 17, 60, 64};

void measure(bool slow, int times) {
  for (int i = 0; i < times; ++i) {
    StreamingCopy::measured(kChunk, std::chrono::microseconds(slow ? 100 : 5));
  }
}

// Shows until the caches are tried again.
void use_up() {
  std::vector<std::byte> from(4096);
  std::vector<std::byte> to(4096);
  while (StreamingCopy::past_the_caches()) {
    const StreamingCopy streaming_copy(to.size());
    streaming_copy.copy(to.data(), from.data(), to.size());
  }
}

void expect_exact_copies() {
  constexpr std::uint8_t kUntouched = 0xAA;
  std::vector<std::uint8_t> from(3000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 7 % 151);
  for (const std::size_t bytes : kLengths) {
    for (const std::size_t to_at : kPlaces) {
      for (const std::size_t from_at : kPlaces) {
        std::vector<std::uint8_t> to(3000, kUntouched);
        {
          const StreamingCopy streaming_copy(4096);
          streaming_copy.copy(to.data() + to_at, from.data() + from_at, bytes);
        }
        std::vector<std::uint8_t> expected(3000, kUntouched);
        for (std::size_t i = 0; i < bytes; ++i) expected[to_at + i] = from[from_at + i];
        ASSERT_EQ(to, expected) << bytes << " bytes from " << from_at << " to " << to_at;
      }
    }
    measure(StreamingCopy::past_the_caches(), 2);  // it goes on as it began
  }
}

TEST(StreamingCopy, CopiesExactlyTheBytesFromAndToAnyAddressThroughTheCaches) {
  use_up();
  measure(false, 1);
  expect_exact_copies();
  EXPECT_FALSE(StreamingCopy::past_the_caches());
}

TEST(StreamingCopy, CopiesExactlyTheBytesFromAndToAnyAddressPastTheCaches) {
  measure(true, 2);
  expect_exact_copies();
  EXPECT_TRUE(StreamingCopy::past_the_caches());
}

TEST(StreamingCopy, GoesPastTheCachesWhereTheyWereSlowTwiceInARow) {
  use_up();
  measure(false, 1);
  measure(true, 1);
  EXPECT_FALSE(StreamingCopy::past_the_caches());
  measure(false, 1);
  measure(true, 1);
  EXPECT_FALSE(StreamingCopy::past_the_caches());
  measure(true, 1);
  EXPECT_TRUE(StreamingCopy::past_the_caches());
}

TEST(StreamingCopy, TriesTheCachesAgainAfterAWhileAndStaysWithThemIfTheyAreFast) {
  measure(true, 2);
  use_up();
  measure(true, 1);  // one is enough to go on
  EXPECT_TRUE(StreamingCopy::past_the_caches());
  use_up();
  measure(false, 1);
  measure(true, 1);
  EXPECT_FALSE(StreamingCopy::past_the_caches());
}

}  // namespace
}  // namespace hvd::engine::host
