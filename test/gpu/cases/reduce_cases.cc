#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>

#include "core/base/status.h"
#include "ops/cuda/reduce.h"
#include "ops/host/reduce.h"
#include "test/gpu/cases/guarded.h"
#include "test/support/reduce_ops.h"
#include "test/support/typed_array.h"

namespace hvd::engine {
namespace {

using test::Guarded;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t kNumels[] = {0, 1, 3, 16, 17, 1023, 4097, 20011};

// What the ranks bring: memory of one layout, in which tensors of many sizes stand apart.
struct World {
  std::vector<Bytes> in;  // by rank
  std::deque<Guarded> segments;
  ReduceInputs inputs;
};

World make_world(DType dtype, int ranks, int mine, std::int64_t numel) {
  World world;
  world.inputs.ranks = ranks;
  world.inputs.mine = mine;
  for (int rank = 0; rank < ranks; ++rank) {
    world.in.push_back(test::random_elements(dtype, numel, static_cast<std::uint64_t>(rank + 7)));
    const Guarded& segment = world.segments.emplace_back(world.in.back().size(), 0);
    segment.write(world.in.back());
    world.inputs.base[rank] = segment.data();
  }
  return world;
}

Bytes on_host(const World& world, DType dtype, const Reduction& reduction, std::size_t begin,
              std::int64_t numel) {
  std::vector<const void*> inputs;
  for (const Bytes& in : world.in) inputs.push_back(in.data() + begin);
  Bytes out(static_cast<std::size_t>(numel) * size_of(dtype));
  host::reduce(dtype, reduction.op, inputs, out.data(), numel, reduction.prescale,
               reduction.postscale);
  return out;
}

// A batch of many sizes, whose outputs begin at all kinds of places.
void expect_reduced(DType dtype, const Reduction& reduction, int ranks) {
  const std::size_t size = size_of(dtype);
  std::int64_t numel = 0;
  for (const std::int64_t each : kNumels) numel += each + 64;
  const World world = make_world(dtype, ranks, ranks / 2, numel);
  std::deque<Guarded> outputs;
  std::vector<CopyPiece> pieces;
  std::vector<std::size_t> begins;
  std::size_t begin = 0;
  for (const std::int64_t each : kNumels) {
    const auto count = static_cast<std::size_t>(each);
    outputs.emplace_back(count * size, outputs.size() % 3 * size);
    begins.push_back(begin);
    pieces.push_back({world.inputs.base[ranks / 2] + begin, outputs.back().data(), each});
    begin += (count + 63) / 64 * 64 * size;
  }
  reduce_pieces(0, nullptr, dtype, reduction, world.inputs, pieces);
  test::synchronize();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    SCOPED_TRACE(std::string(name_of(reduction.op)) + " of " + std::string(name_of(dtype)) + ", " +
                 std::to_string(pieces[i].numel) + " elements, " + std::to_string(ranks) +
                 " ranks, scales " + std::to_string(reduction.prescale) + " and " +
                 std::to_string(reduction.postscale));
    ASSERT_TRUE(outputs[i].read() == on_host(world, dtype, reduction, begins[i], pieces[i].numel));
    ASSERT_TRUE(outputs[i].is_intact());
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    ASSERT_TRUE(world.segments[place].read() == world.in[place]) << "inputs are only read";
  }
}

TEST(ReducePieces, EveryOperationHasTheBitsOfTheHost) {
  for (const DType dtype : test::kAllDTypes) {
    for (const ReduceOp op : test::elementwise_ops(dtype)) {
      for (const int ranks : {1, 2, 3, 4}) expect_reduced(dtype, {.op = op}, ranks);
    }
  }
}

TEST(ReducePieces, ScalesAreThoseOfTheHost) {
  for (const DType dtype : test::kAllDTypes) {
    if (dtype == DType::kBool) continue;
    for (const int ranks : {1, 2, 3}) {
      expect_reduced(dtype, {.prescale = 0.7}, ranks);
      expect_reduced(dtype, {.postscale = 1.0 / 3}, ranks);
      expect_reduced(dtype, {.prescale = -1.5, .postscale = 0.3}, ranks);
    }
  }
}

TEST(ReducePieces, MayWriteWhereThisRankBroughtIt) {
  constexpr std::int64_t kNumel = 10001;
  const World world = make_world(DType::kBF16, 3, 1, kNumel);
  std::byte* const place = world.segments[1].data() + 64;
  const CopyPiece piece{place, place, kNumel - 32};
  reduce_pieces(0, nullptr, DType::kBF16, {}, world.inputs, {&piece, 1});
  test::synchronize();
  Bytes expected = on_host(world, DType::kBF16, {}, 64, kNumel - 32);
  expected.insert(expected.begin(), world.in[1].begin(), world.in[1].begin() + 64);
  EXPECT_TRUE(world.segments[1].read() == expected);
  EXPECT_TRUE(world.segments[1].is_intact());
}

TEST(ReducePieces, WhatHasNoMeaningIsRefused) {
  ReduceInputs inputs;
  const auto reduce = [&](DType dtype, const Reduction& reduction) {
    reduce_pieces(0, nullptr, dtype, reduction, inputs, {});
  };
  EXPECT_THROW(reduce(DType::kF32, {}), InvalidArgumentError);  // no ranks
  inputs.ranks = ReduceInputs::kMostRanks + 1;
  EXPECT_THROW(reduce(DType::kF32, {}), InvalidArgumentError);
  inputs.ranks = 1;
  EXPECT_NO_THROW(reduce(DType::kF32, {}));
  EXPECT_THROW(reduce(DType::kF32, {.op = ReduceOp::kAverage}), InvalidArgumentError);
  EXPECT_THROW(reduce(DType::kF32, {.op = ReduceOp::kAdasum}), InvalidArgumentError);
  EXPECT_THROW(reduce(DType::kC64, {.op = ReduceOp::kMax}), InvalidArgumentError);
  EXPECT_THROW(reduce(DType::kF32, {.op = ReduceOp::kBitAnd}), InvalidArgumentError);
  EXPECT_THROW(reduce(DType::kBool, {.prescale = 0.5}), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd::engine
