#include "ops/nccl/nccl_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/status.h"
#include "test/gpu/logic/fake_nccl.h"
#include "test/gpu/logic/host_cuda.h"

namespace hvd::engine {
namespace {

using test::FakeNccl;
using test::NcclCall;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kHuge = (std::int64_t{1} << 31) + 5;

class World : public ::testing::Test {
 protected:
  void SetUp() override { nccl_.calls.clear(); }

  // Nothing reads or writes these addresses.
  static std::byte* at(std::uintptr_t place) { return reinterpret_cast<std::byte*>(place << 40); }
  static TensorView view(void* data, std::int64_t numel, DType dtype = DType::kF32) {
    return {data, numel, dtype, {DeviceKind::kCuda, 0}};
  }
  void finish(Operation& operation) {
    while (!operation.advance()) {
    }
    collective_.fence().wait();
  }

  FakeNccl nccl_;
  std::shared_ptr<LaunchQueue> queue_ = std::make_shared<LaunchQueue>(0, Duration::zero());
  std::shared_ptr<NcclCommunicator> communicator_ = std::make_shared<NcclCommunicator>(
      nccl_.api(), make_nccl_id(nccl_.api()), NcclCommunicator::Place{.rank = 1, .size = 2});
  NcclCollective collective_{queue_, communicator_};
};

TEST_F(World, AnAllReduceTakesMoreElementsThanAnIntCounts) {
  const Slice slice = {view(at(1), kHuge), view(at(2), kHuge)};
  finish(*collective_.all_reduce({&slice, 1}, {}));
  ASSERT_THAT(nccl_.named("ncclAllReduce"), ::testing::SizeIs(1));
  EXPECT_EQ(nccl_.named("ncclAllReduce")[0], (NcclCall{"ncclAllReduce",
                                                       at(1),
                                                       at(2),
                                                       static_cast<std::size_t>(kHuge),
                                                       ncclFloat32,
                                                       ncclSum,
                                                       -1,
                                                       {}}));
}

TEST_F(World, AComplexNumberIsTwoElements) {
  const Slice slice = {view(at(1), kHuge, DType::kC128), view(at(1), kHuge, DType::kC128)};
  finish(*collective_.all_reduce({&slice, 1}, {}));
  EXPECT_EQ(nccl_.named("ncclAllReduce").at(0).count, 2 * static_cast<std::size_t>(kHuge));
}

TEST_F(World, AnEvenGatherIsOneCall) {
  const auto bytes = static_cast<std::size_t>(kHuge);
  const GatherSlice slice = {at(1), at(2), {bytes, bytes}};
  finish(*collective_.all_gather({&slice, 1}));
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclGroupStart", "ncclAllGather", "ncclGroupEnd"));
  EXPECT_EQ(nccl_.calls[1].count, bytes);
}

TEST_F(World, AnUnevenGatherIsAGroupOfBroadcasts) {
  const auto bytes = static_cast<std::size_t>(kHuge);
  const GatherSlice slice = {at(1), at(2), {bytes, 3}};
  finish(*collective_.all_gather({&slice, 1}));
  const auto calls = nccl_.named("ncclBroadcast");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0], (NcclCall{"ncclBroadcast", at(2), at(2), bytes, ncclUint8, ncclSum, 0, {}}));
  EXPECT_EQ(calls[1],
            (NcclCall{"ncclBroadcast", at(1), at(2) + bytes, 3, ncclUint8, ncclSum, 1, {}}));
  EXPECT_EQ(nccl_.named("ncclGroupStart").size(), 1u);
}

TEST_F(World, AnUnevenReduceScatterIsAGroupOfReductions) {
  const ScatterSlice slice = {view(at(1), kHuge + 3), view(at(2), 3), {kHuge, 3}};
  finish(*collective_.reduce_scatter({&slice, 1}, {ReduceOp::kMax}));
  const auto calls = nccl_.named("ncclReduce");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0], (NcclCall{"ncclReduce",
                                at(1),
                                at(2),
                                static_cast<std::size_t>(kHuge),
                                ncclFloat32,
                                ncclMax,
                                0,
                                {}}));
  EXPECT_EQ(calls[1],
            (NcclCall{"ncclReduce", at(1) + 4 * kHuge, at(2), 3, ncclFloat32, ncclMax, 1, {}}));
}

TEST_F(World, AnEvenReduceScatterIsOneCall) {
  const ScatterSlice slice = {view(at(1), 6), view(at(2), 3), {3, 3}};
  finish(*collective_.reduce_scatter({&slice, 1}, {ReduceOp::kSum, 1.0, 0.5}));
  EXPECT_EQ(nccl_.named("ncclReduceScatter").at(0),
            (NcclCall{"ncclReduceScatter", at(1), at(2), 3, ncclFloat32, ncclAvg, -1, {}}));
}

TEST_F(World, AnAllToAllSendsAndReceivesWhatIsNotEmpty) {
  const auto bytes = static_cast<std::size_t>(kHuge);
  const ExchangeSlice slice = {at(1), at(2), {bytes, 2}, {0, 2}};
  finish(*collective_.all_to_all({&slice, 1}));
  EXPECT_THAT(nccl_.names(),
              ElementsAre("ncclGroupStart", "ncclSend", "ncclSend", "ncclRecv", "ncclGroupEnd"));
  EXPECT_EQ(nccl_.calls[1].count, bytes);
  EXPECT_EQ(nccl_.calls[2].from, at(1) + bytes);
  EXPECT_EQ(nccl_.calls[3].to, at(2));
}

TEST_F(World, ABatchOfBroadcastsIsOneGroup) {
  const Slice slices[] = {{view(at(1), kHuge), view(at(1), kHuge)},
                          {view(at(2), 1), view(at(3), 1)}};
  finish(*collective_.broadcast(slices, 1));
  EXPECT_THAT(nccl_.names(),
              ElementsAre("ncclGroupStart", "ncclBroadcast", "ncclBroadcast", "ncclGroupEnd"));
  EXPECT_EQ(nccl_.calls[1].count, 4 * static_cast<std::size_t>(kHuge));
  EXPECT_EQ(nccl_.calls[1].peer, 1);
}

// A batch of real values; NCCL is a world of one rank that copies.
class Packed : public World {
 protected:
  void SetUp() override {
    World::SetUp();
    nccl_.copies = true;
  }
  void add(std::vector<float>& in, std::vector<float>& out) {
    out.assign(in.size(), -1);
    const auto numel = static_cast<std::int64_t>(in.size());
    slices_.push_back({view(in.data(), numel), view(out.data(), numel)});
  }
  std::vector<Slice> slices_;
};

TEST_F(Packed, ABatchIsOneTensorOnTheWay) {
  std::vector<float> a = {1, 2, 4};
  std::vector<float> b(17, 8);
  std::vector<float> c;
  std::vector<float> outs[3];
  add(a, outs[0]);
  add(b, outs[1]);
  add(c, outs[2]);
  finish(*collective_.all_reduce(slices_, {}));
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclMemAlloc", "ncclCommRegister", "ncclGroupStart",
                                         "ncclAllReduce", "ncclGroupEnd"));
  EXPECT_EQ(nccl_.named("ncclAllReduce").at(0).count, 16u + 32u);  // 64 and 128 bytes
  EXPECT_EQ(outs[0], a);
  EXPECT_EQ(outs[1], b);
}

TEST_F(Packed, BatchesTakeTurnsInTwoRegisteredBuffers) {
  std::vector<float> a = {1, 2};
  std::vector<float> b = {3, 4};
  std::vector<float> outs[2];
  add(a, outs[0]);
  add(b, outs[1]);
  for (int round = 0; round < 4; ++round) finish(*collective_.all_reduce(slices_, {}));
  const auto calls = nccl_.named("ncclAllReduce");
  EXPECT_EQ(calls[0].from, calls[2].from);
  EXPECT_EQ(calls[1].from, calls[3].from);
  EXPECT_NE(calls[0].from, calls[1].from);
  const auto registered = nccl_.named("ncclCommRegister");
  ASSERT_EQ(registered.size(), 2u);
  EXPECT_EQ(registered[0].to, calls[0].from);
  EXPECT_EQ(registered[1].to, calls[1].from);
  EXPECT_EQ(registered[0].count, std::size_t{2} << 20);
  EXPECT_EQ(nccl_.named("ncclMemAlloc").size(), 2u);
}

// The third batch is packed where the first was: not before that is unpacked.
TEST_F(Packed, ABufferIsUsedAgainWhenItsLastReaderIsThrough) {
  test::host_cuda().by_hand = true;
  std::vector<float> values[3] = {{1, 2}, {3, 4}, {5, 6}};
  std::vector<float> outs[3];
  std::vector<std::unique_ptr<Operation>> operations;
  for (int i = 0; i < 3; ++i) {
    slices_.clear();
    add(values[i], outs[i]);
    operations.push_back(
        collective_.all_reduce(slices_, {ReduceOp::kSum, 1.0, 1.0, WireFormat::kF16}));
    EXPECT_TRUE(operations.back()->advance());
  }
  test::run_streams();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outs[i], values[i]) << i;
}

TEST_F(Packed, ALargerBatchGetsALargerBufferAndTheOldOneGoesLater) {
  std::vector<float> small(8, 1);
  std::vector<float> large(std::size_t{3} << 18, 2);
  std::vector<float> outs[2];
  const Reduction reduction = {ReduceOp::kMax, 1.0, 2.0};  // packs
  for (const bool both : {false, false, true}) {
    slices_.clear();
    add(small, outs[0]);
    if (both) add(large, outs[1]);
    finish(*collective_.all_reduce(slices_, reduction));
  }
  EXPECT_EQ(nccl_.named("ncclMemAlloc").at(2).count, std::size_t{4} << 20);
  EXPECT_THAT(nccl_.named("ncclMemFree"), IsEmpty());
  collective_.progress(Clock::now());
  EXPECT_EQ(nccl_.named("ncclCommDeregister").size(), 1u);
  EXPECT_EQ(nccl_.named("ncclMemFree").size(), 1u);
  EXPECT_EQ(nccl_.named("ncclMemFree").at(0).to, nccl_.named("ncclMemAlloc").at(0).to);
  EXPECT_EQ(outs[1].back(), 4);
}

TEST_F(Packed, WithoutRegistrationMemoryIsCudas) {
  nccl_.drop_registration();
  std::vector<float> a = {1, 2};
  std::vector<float> out;
  add(a, out);
  finish(*collective_.all_reduce(slices_, {ReduceOp::kMax, 1.0, 2.0}));
  EXPECT_THAT(out, ElementsAre(2, 4));
  EXPECT_THAT(nccl_.named("ncclCommRegister"), IsEmpty());
}

TEST_F(Packed, AWireFormatIsConvertedAndScaledOnTheWay) {
  std::vector<float> a = {1, 3, 1e9f};
  std::vector<float> out;
  add(a, out);
  finish(*collective_.all_reduce(slices_, {ReduceOp::kSum, 2.0, 0.25, WireFormat::kF16}));
  EXPECT_EQ(nccl_.named("ncclAllReduce").at(0).type, ncclFloat16);
  EXPECT_THAT(out, ElementsAre(0.5f, 1.5f, std::numeric_limits<float>::infinity()));
}

TEST_F(Packed, ScalesOfMaximaAreAppliedOnTheWay) {
  std::vector<float> a = {1, -3};
  std::vector<float> out;
  add(a, out);
  finish(*collective_.all_reduce(slices_, {ReduceOp::kMax, 2.0, 0.25}));
  EXPECT_EQ(nccl_.named("ncclAllReduce").at(0).op, ncclMax);
  EXPECT_THAT(out, ElementsAre(0.5f, -1.5f));
}

TEST_F(Packed, AScatteredIntegerIsScaledToo) {
  std::vector<std::int32_t> in = {7, 9, 11, 13};
  std::vector<std::int32_t> out = {-1, -1};
  const ScatterSlice slice = {
      view(in.data(), 4, DType::kI32), view(out.data(), 2, DType::kI32), {2, 2}};
  finish(*collective_.reduce_scatter({&slice, 1}, {ReduceOp::kSum, 0.5, 3.0}));
  EXPECT_THAT(out, ElementsAre(9, 12));  // 3 * trunc(7 / 2), of the first half: it only copies
  EXPECT_THAT(in, ElementsAre(7, 9, 11, 13));
}

TEST_F(Packed, LargeBatchesAndErrorFeedback) {
  const auto numel = static_cast<std::int64_t>(NcclCollective::kMostPacked / 4);
  slices_ = {{view(at(1), numel), view(at(1), numel)}, {view(at(2), 1), view(at(2), 1)}};
  nccl_.copies = false;
  finish(*collective_.all_reduce(slices_, {}));
  EXPECT_EQ(nccl_.named("ncclAllReduce").size(), 2u);
  float residual = 0;
  slices_[1].residual = &residual;
  EXPECT_THROW(collective_.all_reduce(slices_, {}), UnsupportedError);
}

TEST_F(World, AScaledSumMakesAnOperationAndGivesItBack) {
  const Slice slice = {view(at(1), 8), view(at(1), 8)};
  finish(*collective_.all_reduce({&slice, 1}, {ReduceOp::kSum, 0.25, 0.5}));
  EXPECT_EQ(nccl_.scale, 0.125);
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclGroupStart", "ncclRedOpCreatePreMulSum",
                                         "ncclAllReduce", "ncclRedOpDestroy", "ncclGroupEnd"));
  EXPECT_EQ(nccl_.calls[2].op, static_cast<ncclRedOp_t>(100));
}

TEST_F(World, ACallThatFailsEndsTheOperation) {
  nccl_.results["ncclAllReduce"] = ncclUnhandledCudaError;
  const Slice slice = {view(at(1), 8), view(at(1), 8)};
  const auto operation = collective_.all_reduce({&slice, 1}, {});
  EXPECT_THROW(operation->advance(), PeerLostError);
  EXPECT_EQ(nccl_.names().back(), "ncclGroupEnd");
}

TEST_F(World, NothingIsCalledAfterAbort) {
  const Slice slice = {view(at(1), 8), view(at(1), 8)};
  const auto operation = collective_.all_reduce({&slice, 1}, {});
  collective_.abort();
  EXPECT_THROW(operation->advance(), AbortedError);
  EXPECT_THAT(nccl_.named("ncclAllReduce"), IsEmpty());
}

TEST_F(World, WhoWaitsForAnExchangeLooksOftenAndNobodyWhenItIsOver) {
  test::host_cuda().by_hand = true;
  const std::int64_t mine[] = {7};
  std::int64_t all[2] = {};
  const auto operation = collective_.exchange(mine, all);
  for (int looks = 0; looks < 10; ++looks) {
    EXPECT_FALSE(operation->advance());
    collective_.progress(Clock::now());
    ASSERT_TRUE(collective_.poll_interval().has_value());
    EXPECT_LE(*collective_.poll_interval(), std::chrono::microseconds(100));
  }
  test::run_streams();
  EXPECT_TRUE(operation->advance());
  collective_.progress(Clock::now());
  EXPECT_FALSE(collective_.poll_interval().has_value());
}

TEST_F(World, AnExchangeGoesByWayOfTheDevice) {
  nccl_.copies = true;
  const std::vector<std::int64_t> mine = {7, 9};
  std::vector<std::int64_t> all(4, -1);
  finish(*collective_.exchange(mine, all));
  EXPECT_EQ(nccl_.named("ncclAllGather").at(0).count, 16u);
  EXPECT_THAT(std::vector(all.begin(), all.begin() + 2), ElementsAre(7, 9));
  std::vector<std::int64_t> narrow(3);
  EXPECT_THROW(collective_.exchange(mine, narrow), InvalidArgumentError);
}

TEST_F(World, MemoryThatIsNotThereIsAnErrorWithItsSize) {
  test::host_cuda().memory_error = cudaErrorMemoryAllocation;
  try {
    collective_.allocate(12345);
    FAIL() << "there was memory";
  } catch (const PeerLostError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cudaMalloc of 12345 bytes"));
  }
}

TEST_F(World, ProgressMakesCommunicatorsThatOthersWaitFor) {
  const std::vector<Rank> alone = {1};
  const auto subset = collective_.subset(1, alone);
  EXPECT_THAT(nccl_.named("ncclCommShrink"), IsEmpty());
  EXPECT_TRUE(collective_.poll_interval().has_value());
  collective_.progress(Clock::now());
  EXPECT_EQ(nccl_.named("ncclCommShrink").size(), 1u);
  EXPECT_FALSE(collective_.poll_interval().has_value());
}

TEST_F(World, WhatHasNoMeaningIsRefusedAtTheCall) {
  const Slice slice = {view(at(1), 8), view(at(1), 8)};
  EXPECT_THROW(collective_.broadcast({&slice, 1}, 2), InvalidArgumentError);
  EXPECT_THROW(collective_.all_reduce({&slice, 1}, {ReduceOp::kAverage}), InvalidArgumentError);
  EXPECT_THROW(collective_.send(slice.input, 0, 0), UnsupportedError);
  EXPECT_THAT(nccl_.names(), IsEmpty());
}

}  // namespace
}  // namespace hvd::engine
