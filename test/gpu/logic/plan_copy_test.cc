#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/copy_tile.h"

namespace hvd::engine {
namespace {

using ::testing::ElementsAre;

// What remains of a launch after it.
struct Planned {
  std::uint32_t tiles;
  std::vector<CopyPiece> pieces;
  std::vector<std::uint32_t> first_tiles;
};

std::vector<Planned> plan(const std::vector<CopyPiece>& pieces, const CopySizes& sizes) {
  std::vector<Planned> launches;
  plan_copy(pieces, sizes, [&](const CopyLaunch& launch) {
    launches.push_back({launch.tiles,
                        {launch.piece, launch.piece + launch.pieces},
                        {launch.first_tile, launch.first_tile + launch.pieces}});
  });
  return launches;
}

std::byte* at(std::uintptr_t place) {
  return reinterpret_cast<std::byte*>(place << 44);
}

TEST(PlanCopy, EachPieceHasTilesOfItsOwn) {
  const auto launches =
      plan({{at(1), at(2), 5}, {at(3), at(4), 4}, {at(5), at(6), 0}, {at(7), at(8), 1}}, {4, 4, 4});
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].tiles, 4u);
  EXPECT_THAT(launches[0].first_tiles, ElementsAre(0, 2, 3));
}

TEST(PlanCopy, TheGradientsOfResNet50AreOneLaunch) {
  const std::vector<CopyPiece> pieces(161, {at(1), at(2), 160000});
  EXPECT_EQ(plan(pieces, {4, 4, 4096}).size(), 1u);
}

TEST(PlanCopy, AHugeTensorIsDividedWhereATileEnds) {
  constexpr std::int64_t kNumel = 5 * (std::int64_t{1} << 30) + 3;
  const auto launches = plan({{at(1), at(2), 7}, {at(3), at(4), kNumel}}, {4, 2, 2});
  ASSERT_EQ(launches.size(), 3u);
  std::int64_t done = 0;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_LE(launches[i].tiles, kMostTiles);
    const CopyPiece& part = launches[i].pieces.back();
    EXPECT_EQ(part.from, at(3) + done * 4);
    EXPECT_EQ(part.to, at(4) + done * 2);
    done += part.numel;
  }
  EXPECT_EQ(done, kNumel);
}

TEST(PlanCopy, TheTileOfEveryPieceIsFound) {
  std::vector<CopyPiece> pieces;
  for (std::int64_t i = 1; i <= 500; ++i) pieces.push_back({at(1), at(2), i});
  int launches = 0;
  plan_copy(pieces, {1, 1, 3}, [&](const CopyLaunch& launch) {
    ++launches;
    std::uint32_t tile = 0;
    for (std::uint32_t piece = 0; piece < launch.pieces; ++piece) {
      for (std::int64_t left = launch.piece[piece].numel; left > 0; left -= 3) {
        ASSERT_EQ(cuda::piece_of(launch, tile++), piece);
      }
    }
    EXPECT_EQ(tile, launch.tiles);
  });
  EXPECT_EQ(launches, 1);
}

TEST(PlanCopy, VectorsBeginWhereBothSidesAreAligned) {
  using Half = cuda::Vectors<float, Float16>;  // four elements: 8 and 16 bytes
  EXPECT_EQ(Half::kWidth, 4);
  const auto half = [](std::uintptr_t address) {
    return reinterpret_cast<const Float16*>(address);
  };
  const auto single = [](std::uintptr_t address) {
    return reinterpret_cast<const float*>(address);
  };
  EXPECT_EQ(Half::head(half(64), single(64), 100), 0);
  EXPECT_EQ(Half::head(half(64 + 2 * 3), single(64 + 4 * 3), 100), 1);
  EXPECT_EQ(Half::head(half(64 + 2), single(64), 100), 100);
  EXPECT_EQ(Half::head(half(64 + 2), single(64 + 4), 2), 2);
}

}  // namespace
}  // namespace hvd::engine
