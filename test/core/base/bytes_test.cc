#include "core/base/bytes.h"

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

}  // namespace
}  // namespace hvd
