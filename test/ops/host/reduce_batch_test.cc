#include "ops/host/reduce_batch.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "ops/host/wire.h"
#include "test/support/typed_array.h"

namespace hvd::engine::host {
namespace {

using test::TypedArray;

constexpr std::int64_t kSizes[] = {700, 0, 10, 256, 1, 0, 1300};

// One rank's tensors: small integers, 127 in each block.
struct Tensors {
  Tensors(DType dtype, int rank) {
    for (const std::int64_t numel : kSizes) {
      TypedArray& input = inputs.emplace_back(dtype, numel);
      for (std::int64_t i = 0; i < numel; ++i) {
        input.set(i, i % 256 == 0 ? 127 : static_cast<double>((i * 7 + rank * 3) % 40 - 20));
      }
      outputs.emplace_back(dtype, numel);
      residuals.emplace_back(static_cast<std::size_t>(numel), 0.0f);
    }
  }
  std::vector<Slice> slices(bool with_residuals) {
    std::vector<Slice> all;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      all.push_back(
          {inputs[i].view(), outputs[i].view(), with_residuals ? residuals[i].data() : nullptr});
    }
    return all;
  }

  std::vector<TypedArray> inputs;
  std::vector<TypedArray> outputs;
  std::vector<std::vector<float>> residuals;
};

std::size_t bytes_of_all(WireFormat format) {
  std::size_t bytes = 0;
  for (const std::int64_t numel : kSizes) bytes += wire_bytes(format, numel);
  return bytes;
}

struct Case {
  DType dtype;
  WireFormat wire;
  std::size_t ranks;
};

class WireBatches : public testing::TestWithParam<Case> {};

// As a backend does it: every rank reduces a range and decodes all of them.
TEST_P(WireBatches, AverageExactlyWhateverTheRanges) {
  const auto [dtype, wire, ranks] = GetParam();
  const Reduction reduction{.postscale = 1.0 / static_cast<double>(ranks), .wire = wire};
  std::vector<Tensors> tensors;
  std::vector<std::vector<std::byte>> sent;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto batch = ReduceBatch::make(tensors.emplace_back(dtype, 0).slices(true), reduction);
    ASSERT_EQ(batch->bytes(), bytes_of_all(wire));
    batch->pack(0, batch->bytes(), sent.emplace_back(batch->bytes()).data());
  }
  const auto batch = ReduceBatch::make(tensors[0].slices(false), reduction);
  for (const std::size_t parts : {1u, 2u, 3u, 7u, 64u}) {
    std::vector<std::byte> result(batch->bytes());
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t begin = batch->boundary(batch->bytes() * part / parts);
      const std::size_t end = batch->boundary(batch->bytes() * (part + 1) / parts);
      std::vector<const void*> inputs;
      for (const auto& bytes : sent) inputs.push_back(bytes.data() + begin);
      batch->reduce(begin, end, inputs, result.data() + begin);
    }
    Tensors empty(dtype, 0);
    tensors[0].outputs = empty.outputs;
    const auto receiving = ReduceBatch::make(tensors[0].slices(false), reduction);
    const std::size_t middle = receiving->boundary(receiving->bytes() / 2);
    receiving->unpack(0, middle, result.data());
    receiving->unpack(middle, receiving->bytes(), result.data() + middle);
    EXPECT_EQ(tensors[0].outputs, tensors[0].inputs) << parts << " parts";
  }
}

TEST_P(WireBatches, EncodeRangesAsTheyEncodeTheWhole) {
  const auto [dtype, wire, _] = GetParam();
  Tensors whole(dtype, 1);
  for (auto& residual : whole.residuals) residual.assign(residual.size(), 0.125f);
  Tensors pieces(dtype, 1);
  pieces.residuals = whole.residuals;
  const Reduction reduction{.prescale = 0.3, .wire = wire};
  const auto at_once = ReduceBatch::make(whole.slices(true), reduction);
  const auto in_ranges = ReduceBatch::make(pieces.slices(true), reduction);
  std::vector<std::byte> expected(at_once->bytes());
  at_once->pack(0, at_once->bytes(), expected.data());
  std::vector<std::byte> encoded(at_once->bytes(), std::byte{0x5a});
  std::size_t begin = 0;
  for (std::size_t byte = 0; byte <= at_once->bytes(); byte += 300) {
    const std::size_t end = in_ranges->boundary(byte + 300);
    in_ranges->pack(begin, end, encoded.data() + begin);
    begin = end;
  }
  EXPECT_EQ(begin, at_once->bytes());
  EXPECT_EQ(encoded, expected);
  EXPECT_EQ(whole.residuals, pieces.residuals);
  EXPECT_NE(whole.residuals[0], std::vector<float>(700, 0.0f));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const WireFormat wire : {WireFormat::kF16, WireFormat::kBF16, WireFormat::kInt8}) {
      for (const std::size_t ranks : {1u, 2u, 4u}) all.push_back({dtype, wire, ranks});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, WireBatches, testing::ValuesIn(cases()), [](const auto& given) {
  return std::string(name_of(given.param.dtype)) + "_" + std::string(name_of(given.param.wire)) +
         "_" + std::to_string(given.param.ranks);
});

TEST(WireBatch, BoundariesAreBlocksAndTheEndsOfSlices) {
  Tensors tensors(DType::kF32, 0);
  const auto batch = ReduceBatch::make(tensors.slices(false), {.wire = WireFormat::kInt8});
  std::set<std::size_t> boundaries;
  for (std::size_t byte = 0; byte <= batch->bytes() + 9; ++byte) {
    const std::size_t boundary = batch->boundary(byte);
    ASSERT_LE(boundary, byte);
    ASSERT_EQ(batch->boundary(boundary), boundary);
    boundaries.insert(boundary);
  }
  // 700 elements: 260 + 260 + 192 bytes; 10: 16; 256: 260; 1: 8; 1300: 5 * 260 + 24.
  EXPECT_EQ(boundaries, (std::set<std::size_t>{0, 260, 520, 712, 728, 988, 996, 1256, 1516, 1776,
                                               2036, 2296, 2320}));
}

TEST(WireBatch, OfNothingIsEmpty) {
  const auto batch = ReduceBatch::make({}, {.wire = WireFormat::kInt8});
  EXPECT_EQ(batch->bytes(), 0u);
  EXPECT_EQ(batch->boundary(0), 0u);
  batch->pack(0, 0, nullptr);
}

TEST(WireBatch, RefusesReductionsWithoutAMeaning) {
  Tensors tensors(DType::kI32, 0);
  EXPECT_THROW(ReduceBatch::make(tensors.slices(false), {.wire = WireFormat::kF16}),
               InvalidArgumentError);
}

}  // namespace
}  // namespace hvd::engine::host
