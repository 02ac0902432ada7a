#include "core/base/bytes.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace hvd {
namespace {

TEST(Bytes, ReadsBackWhatWasWritten) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put(std::uint32_t{7});
  out.put(-1.5);
  out.put_string("a.weight");
  ByteReader in(bytes);
  EXPECT_EQ(in.get<std::uint32_t>(), 7u);
  EXPECT_EQ(in.get<double>(), -1.5);
  EXPECT_EQ(in.get_string(), "a.weight");
  in.expect_end();
}

TEST(Bytes, EveryTruncationThrows) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put(std::uint64_t{1});
  out.put_string("name");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ByteReader in{std::span<const std::byte>(bytes).first(length)};
    EXPECT_THROW(
        {
          in.get<std::uint64_t>();
          in.get_string();
        },
        PeerLostError);
  }
}

TEST(Bytes, ALengthThatLiesThrowsBeforeAnythingIsAllocated) {
  Bytes bytes;
  ByteWriter(bytes).put(std::uint32_t{0xffffffffu});
  EXPECT_THROW(ByteReader(bytes).get_string(), PeerLostError);
  EXPECT_THROW(ByteReader(bytes).get_count(8), PeerLostError);
}

TEST(Bytes, TrailingBytesAreMalformed) {
  Bytes bytes(3);
  ByteReader in(bytes);
  in.get<std::uint8_t>();
  EXPECT_THROW(in.expect_end(), PeerLostError);
}

TEST(Bytes, AnEnumOutsideItsRangeIsMalformed) {
  enum class Kind : std::uint8_t { kA, kB };
  Bytes bytes;
  ByteWriter(bytes).put(std::uint8_t{2});
  EXPECT_THROW(ByteReader(bytes).get_enum<Kind>(2), PeerLostError);
}

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
