#include "ops/host/stream_copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvd::host {
namespace {

TEST(StreamCopy, CopiesExactlyTheBytesFromAndToAnyAddress) {
  constexpr std::uint8_t kUntouched = 0xAA;
  std::vector<std::uint8_t> from(3000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 7 % 151);
  for (const std::size_t bytes : {0, 1, 15, 511, 512, 513, 527, 640, 1000, 2047, 2500}) {
    for (const std::size_t to_at : {0, 1, 4, 15, 16, 17, 60, 64}) {
      for (const std::size_t from_at : {0, 1, 3, 16, 63}) {
        std::vector<std::uint8_t> to(3000, kUntouched);
        stream_copy(to.data() + to_at, from.data() + from_at, bytes);
        end_stream();
        std::vector<std::uint8_t> expected(3000, kUntouched);
        for (std::size_t i = 0; i < bytes; ++i) expected[to_at + i] = from[from_at + i];
        ASSERT_EQ(to, expected) << bytes << " bytes from " << from_at << " to " << to_at;
      }
    }
  }
}

}  // namespace
}  // namespace hvd::host
