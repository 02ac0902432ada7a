#include "ops/shm/byte_ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace hvd::engine {
namespace {

std::vector<std::byte> count_up(std::size_t from, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(from + i);
  return bytes;
}

class ByteRingTest : public ::testing::Test {
 protected:
  ByteRingState state;
  std::byte data[16];
  ByteRing ring{state, data, sizeof data};
};

TEST_F(ByteRingTest, KeepsTheOrderAcrossItsEnd) {
  std::vector<std::byte> out(11);
  for (std::size_t at = 0; at < 110; at += 11) {
    ASSERT_EQ(ring.write(count_up(at, 11)), 11u);
    ASSERT_EQ(ring.readable(), 11u);
    ring.read(out);
    ASSERT_EQ(out, count_up(at, 11));
  }
}

TEST_F(ByteRingTest, TakesWhatFitsAndAsksToBeToldOfRoomOnce) {
  EXPECT_EQ(ring.write(count_up(0, 20)), 16u);
  EXPECT_EQ(ring.room(), 0u);
  std::vector<std::byte> out(4);
  EXPECT_TRUE(ring.read(out));
  EXPECT_FALSE(ring.read(out));
  EXPECT_EQ(ring.write(count_up(16, 4)), 4u);
  EXPECT_FALSE(ring.read(out)) << "everything fitted: nobody waits";
}

TEST_F(ByteRingTest, CarriesAStreamBetweenTwoThreads) {
  constexpr std::size_t kTotal = 50'000;
  const auto sent = count_up(0, kTotal);
  std::thread writer([&] {
    for (std::size_t done = 0; done < kTotal;) {
      done += ring.write(std::span(sent).subspan(done, std::min<std::size_t>(7, kTotal - done)));
      if (ring.room() == 0) std::this_thread::yield();
    }
  });
  std::vector<std::byte> received(kTotal);
  for (std::size_t done = 0; done < kTotal;) {
    const std::size_t count = ring.readable();
    ring.read(std::span(received).subspan(done, count));
    done += count;
    if (count == 0) std::this_thread::yield();
  }
  writer.join();
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace hvd::engine
