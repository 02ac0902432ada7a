#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "ops/nccl/nccl_collective.h"
#include "ops/nccl/neighbours.h"
#include "test/gpu/logic/fake_nccl.h"
#include "test/gpu/logic/host_cuda.h"

// Arenas of NcclCollective: which calls they become, and who frees what when.
namespace hvd::engine {
namespace {

using test::FakeNccl;
using test::NcclCall;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::uint64_t kNumber = 7;

class NcclArena : public ::testing::Test {
 protected:
  ArenaMemory make(std::size_t bytes = 4096) {
    ArenaMemory made;
    finish(*collective_->make_arena(kNumber, bytes, made));
    nccl_.calls.clear();
    return made;
  }
  void finish(Operation& operation) {
    while (!operation.advance()) {
    }
    collective_->fence().wait();
  }
  static Slice slice(const ArenaMemory& arena, std::size_t offset, std::int64_t numel,
                     DType dtype = DType::kF32) {
    const TensorView view = {
        static_cast<std::byte*>(arena.mine.data) + offset, numel, dtype, {DeviceKind::kCuda, 0}};
    Slice made{view, view};
    made.place = SlicePlace{kNumber, offset};
    return made;
  }
  // Where each ncclAllReduce begins, and how many elements it has.
  std::vector<std::pair<std::ptrdiff_t, std::size_t>> ranges(const ArenaMemory& arena) const {
    std::vector<std::pair<std::ptrdiff_t, std::size_t>> found;
    for (const NcclCall& call : nccl_.named("ncclAllReduce")) {
      EXPECT_EQ(call.from, call.to);
      found.emplace_back(
          static_cast<const std::byte*>(call.from) - static_cast<const std::byte*>(arena.mine.data),
          call.count);
    }
    return found;
  }

  FakeNccl nccl_;
  std::shared_ptr<LaunchQueue> queue_ = std::make_shared<LaunchQueue>(0, Duration::zero());
  std::unique_ptr<NcclCollective> collective_ = std::make_unique<NcclCollective>(
      queue_, std::make_shared<NcclCommunicator>(nccl_.api(), make_nccl_id(nccl_.api()),
                                                 NcclCommunicator::Place{.rank = 1, .size = 2}));
};

TEST_F(NcclArena, IsMemoryOfNcclsRegisteredWithASplit) {
  ArenaMemory made;
  nccl_.calls.clear();
  const auto operation = collective_->make_arena(kNumber, 4096, made);
  EXPECT_EQ(made.mine.data, nullptr);
  finish(*operation);
  EXPECT_TRUE(made.shared);
  EXPECT_GE(made.mine.bytes, 4096u);
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclMemAlloc", "ncclCommSplit", "ncclGroupStart",
                                         "ncclAllReduce", "ncclGroupEnd", "ncclCommRegister"));
  EXPECT_EQ(nccl_.calls[0].to, made.mine.data);
  EXPECT_EQ(nccl_.calls[3].op, ncclMin);
  EXPECT_EQ(nccl_.calls[3].count, 1u);
  EXPECT_EQ(nccl_.calls[5].to, made.mine.data);
  EXPECT_EQ(nccl_.calls[5].count, made.mine.bytes);
  nccl_.calls.clear();
  ArenaMemory second;
  finish(*collective_->make_arena(kNumber + 1, 64, second));
  EXPECT_THAT(nccl_.named("ncclCommSplit"), IsEmpty());
  EXPECT_THAT(nccl_.named("ncclCommRegister"), SizeIs(1));
}

TEST_F(NcclArena, NeighboursAreOneCallInPlace) {
  const ArenaMemory arena = make();
  const Slice slices[] = {slice(arena, 64, 16), slice(arena, 256, 16), slice(arena, 128, 32)};
  const auto operation = collective_->all_reduce(slices, {ReduceOp::kSum, 1.0, 0.5});
  finish(*operation);
  EXPECT_THAT(ranges(arena), ElementsAre(std::pair(64, 64u)));
  EXPECT_EQ(nccl_.named("ncclAllReduce").at(0).op, ncclAvg);
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclGroupStart", "ncclAllReduce", "ncclGroupEnd"));
  EXPECT_EQ(operation->stats().packed_bytes, 0u);
}

TEST_F(NcclArena, WhatLiesBetweenIsNotTouched) {
  const ArenaMemory arena = make();
  const Slice slices[] = {slice(arena, 0, 10), slice(arena, 64, 16), slice(arena, 128, 3)};
  finish(*collective_->all_reduce(slices, {}));
  EXPECT_THAT(ranges(arena), ElementsAre(std::pair(0, 10u), std::pair(64, 19u)));
  EXPECT_THAT(nccl_.named("ncclGroupStart"), SizeIs(1));
}

TEST_F(NcclArena, CountsGoBeyond31Bits) {
  const ArenaMemory arena = make();
  constexpr std::int64_t kHuge = std::int64_t{1} << 31;
  const Slice slices[] = {slice(arena, 0, kHuge, DType::kBF16),
                          slice(arena, 2 * kHuge, kHuge, DType::kBF16)};
  finish(*collective_->all_reduce(slices, {}));
  EXPECT_THAT(ranges(arena), ElementsAre(std::pair(0, std::size_t{1} << 32)));
  EXPECT_EQ(nccl_.named("ncclAllReduce").at(0).type, ncclBfloat16);
}

TEST_F(NcclArena, ScalesThatAreNoAverageAreMultiplied) {
  const ArenaMemory arena = make();
  const Slice slices[] = {slice(arena, 0, 16), slice(arena, 64, 16)};
  finish(*collective_->all_reduce(slices, {ReduceOp::kSum, 0.5, 0.25}));
  EXPECT_EQ(nccl_.scale, 0.125);
  EXPECT_THAT(ranges(arena), ElementsAre(std::pair(0, 32u)));
}

TEST_F(NcclArena, WhatNcclCannotScaleAndManyRangesArePacked) {
  nccl_.copies = true;
  const ArenaMemory arena = make();
  auto* const values = static_cast<std::int32_t*>(arena.mine.data);
  std::fill_n(values, 1024, 7);
  const Slice integers = slice(arena, 0, 16, DType::kI32);
  finish(*collective_->all_reduce({&integers, 1}, {ReduceOp::kSum, 1.0, 3.0}));
  EXPECT_EQ(values[15], 21);
  EXPECT_EQ(values[16], 7);
  EXPECT_NE(nccl_.named("ncclAllReduce").at(0).from, arena.mine.data);
  nccl_.calls.clear();
  std::vector<Slice> many;
  for (std::size_t i = 0; i <= NcclCollective::kMostRanges; ++i) {
    many.push_back(slice(arena, 128 * i, 16));
  }
  finish(*collective_->all_reduce(many, {}));
  EXPECT_THAT(nccl_.named("ncclAllReduce"), SizeIs(1));
  many.pop_back();
  finish(*collective_->all_reduce(many, {}));
  EXPECT_THAT(nccl_.named("ncclAllReduce"), SizeIs(1 + NcclCollective::kMostRanges));
}

TEST_F(NcclArena, NothingButEmptySlicesIsNoCall) {
  const ArenaMemory arena = make();
  const Slice nothing = slice(arena, 64, 0);
  finish(*collective_->all_reduce({&nothing, 1}, {}));
  EXPECT_THAT(nccl_.named("ncclAllReduce"), IsEmpty());
}

TEST_F(NcclArena, IsDeregisteredThenFreedWithItsLastOwner) {
  ArenaMemory arena = make();
  void* const data = arena.mine.data;
  auto piece = arena.mine.owner;
  arena = {};
  EXPECT_THAT(nccl_.names(), IsEmpty());
  piece.reset();
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclCommDeregister", "ncclMemFree"));
  EXPECT_EQ(nccl_.calls[0].to, data);
  EXPECT_EQ(nccl_.calls[1].to, data);
}

TEST_F(NcclArena, OutlivesTheCollectiveWhichDeregistersIt) {
  ArenaMemory arena = make();
  collective_.reset();
  queue_.reset();
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclCommDeregister", "ncclCommFinalize",
                                         "ncclCommDestroy", "ncclCommFinalize", "ncclCommDestroy"));
  nccl_.calls.clear();
  *static_cast<float*>(arena.mine.data) = 1;
  arena = {};
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclMemFree"));
}

TEST_F(NcclArena, AfterAbortItIsFreedAlone) {
  ArenaMemory arena = make();
  const Slice placed = slice(arena, 0, 16);
  const auto operation = collective_->all_reduce({&placed, 1}, {});
  collective_->abort();
  EXPECT_THAT(nccl_.named("ncclCommAbort"), SizeIs(2));
  EXPECT_THROW(operation->advance(), AbortedError);
  arena = {};
  EXPECT_THAT(nccl_.names(), Not(Contains("ncclCommDeregister")));
  EXPECT_THAT(nccl_.names(), Contains("ncclMemFree"));
}

TEST_F(NcclArena, OneThatNcclDoesNotRegisterWorks) {
  nccl_.registers = false;
  ArenaMemory arena = make();
  const Slice slices[] = {slice(arena, 0, 16), slice(arena, 64, 16)};
  finish(*collective_->all_reduce(slices, {}));
  EXPECT_THAT(ranges(arena), ElementsAre(std::pair(0, 32u)));
  nccl_.calls.clear();
  arena = {};
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclMemFree"));
}

TEST_F(NcclArena, WithoutNcclsMemoryItIsCudas) {
  nccl_.drop_registration();
  const ArenaMemory arena = make();
  EXPECT_TRUE(arena.shared);
  const Slice slices[] = {slice(arena, 0, 16), slice(arena, 64, 16)};
  finish(*collective_->all_reduce(slices, {}));
  EXPECT_THAT(ranges(arena), ElementsAre(std::pair(0, 32u)));
}

TEST_F(NcclArena, WithoutMemoryThereIsNoneAndAWarningSaysHowMuchItWas) {
  nccl_.results["ncclMemAlloc"] = ncclUnhandledCudaError;
  ArenaMemory made;
  ::testing::internal::CaptureStderr();
  finish(*collective_->make_arena(kNumber, std::size_t{3} << 20, made));
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::HasSubstr("gradients are packed, because an arena of 3145728 bytes failed: "
                           "ncclMemAlloc of 4194304 bytes"));
  EXPECT_FALSE(made.shared);
  EXPECT_EQ(made.mine.data, nullptr);
  EXPECT_THAT(nccl_.named("ncclCommRegister"), IsEmpty());
}

TEST_F(NcclArena, ASetThatWasMadeByShrinkingHasItsOwn) {
  const std::vector<Rank> alone = {1};
  auto subset = collective_->subset(1, alone);
  ArenaMemory arena;
  const auto operation = subset->make_arena(kNumber, 4096, arena);
  while (!operation->advance()) {
  }
  EXPECT_THAT(nccl_.named("ncclCommShrink"), SizeIs(1));
  EXPECT_THAT(nccl_.named("ncclCommSplit"), SizeIs(1));
  nccl_.calls.clear();
  const Slice placed = slice(arena, 0, 16);
  EXPECT_THROW(collective_->all_reduce({&placed, 1}, {}), InvalidArgumentError);
  finish(*subset->all_reduce({&placed, 1}, {}));
  EXPECT_THAT(ranges(arena), ElementsAre(std::pair(0, 16u)));
}

}  // namespace
}  // namespace hvd::engine
