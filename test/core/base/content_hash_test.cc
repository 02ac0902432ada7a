#include "core/base/content_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace hvd {
namespace {

TEST(ContentHash, TellsEveryByteOfEverySize) {
  std::set<std::uint64_t> seen;
  for (std::size_t size = 0; size <= 80; ++size) {
    std::vector<std::byte> bytes(size);
    EXPECT_TRUE(seen.insert(content_hash(bytes)).second) << size << " zeros";
    for (std::byte& byte : bytes) {
      byte = std::byte{1};
      EXPECT_TRUE(seen.insert(content_hash(bytes)).second) << "a one in " << size << " bytes";
      byte = std::byte{0};
    }
  }
}

TEST(ContentHash, IsOfTheValuesAndNotOfWhereTheyLie) {
  std::vector<std::byte> bytes(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  std::vector<std::byte> shifted(1);
  shifted.insert(shifted.end(), bytes.begin(), bytes.end());
  EXPECT_EQ(content_hash(bytes), content_hash(std::span(shifted).subspan(1)));
}

TEST(ContentHash, KeepsTheOrderOfWords) {
  std::vector<std::byte> bytes(64);
  bytes[0] = std::byte{7};
  const std::uint64_t first = content_hash(bytes);
  std::swap(bytes[0], bytes[32]);  // of the same lane
  EXPECT_NE(first, content_hash(bytes));
}

}  // namespace
}  // namespace hvd
