#include "ops/cuda_ipc/packed_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace hvd::engine {
namespace {

using ::testing::ElementsAre;
using Part = std::tuple<std::ptrdiff_t, std::size_t, std::size_t>;  // tensor byte, offset, bytes

alignas(64) std::byte memory[4096];

std::vector<Part> parts(const PackedSequence& sequence, std::size_t begin, std::size_t end) {
  std::vector<Part> found;
  sequence.visit(begin, end, [&](std::byte* data, std::size_t offset, std::size_t bytes) {
    found.emplace_back(data - memory, offset, bytes);
  });
  return found;
}

TEST(PackedSequence, TensorsBeginAtMultiplesOfTheAlignment) {
  PackedSequence sequence;
  sequence.add(memory + 8, 100);
  sequence.add(nullptr, 0);
  sequence.add(memory + 512, 64);
  sequence.add(memory + 1024, 1);
  EXPECT_EQ(sequence.bytes(), 128u + 64u + 64u);
  EXPECT_THAT(parts(sequence, 0, 1000),
              ElementsAre(Part{8, 0, 100}, Part{512, 128, 64}, Part{1024, 192, 1}));
}

TEST(PackedSequence, ARangeHasWhatLiesInIt) {
  PackedSequence sequence;
  sequence.add(memory, 200);
  sequence.add(memory + 512, 64);
  EXPECT_THAT(parts(sequence, 64, 128), ElementsAre(Part{64, 0, 64}));
  EXPECT_THAT(parts(sequence, 128, 320), ElementsAre(Part{128, 0, 72}, Part{512, 128, 64}));
  EXPECT_THAT(parts(sequence, 200, 256), ElementsAre());  // a gap
  EXPECT_THAT(parts(sequence, 320, 640), ElementsAre());
  EXPECT_THAT(parts(sequence, 64, 64), ElementsAre());
}

TEST(PackedSequence, TheUnitDividesEveryAddressAndSize) {
  PackedSequence sequence;
  EXPECT_EQ(size_of(sequence.unit()), 8u);
  sequence.add(memory + 8, 16);
  EXPECT_EQ(size_of(sequence.unit()), 8u);
  sequence.add(memory + 4, 16);
  EXPECT_EQ(size_of(sequence.unit()), 4u);
  sequence.add(memory, 6);
  EXPECT_EQ(size_of(sequence.unit()), 2u);
  sequence.add(memory + 1, 2);
  EXPECT_EQ(size_of(sequence.unit()), 1u);
}

}  // namespace
}  // namespace hvd::engine
