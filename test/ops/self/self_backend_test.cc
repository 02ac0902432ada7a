#include "ops/self/self_backend.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/support/collective_contract.h"
#include "test/support/control_plane_contract.h"
#include "test/support/fence_gate.h"
#include "test/support/typed_array.h"

namespace hvd::engine {
namespace {

using test::CollectiveCase;
using test::FenceGate;
using test::TypedArray;

class SelfCollectiveContract : public testing::TestWithParam<CollectiveCase> {};

TEST_P(SelfCollectiveContract, Holds) {
  SelfCollective collective;
  GetParam().run(collective, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(Port, SelfCollectiveContract,
                         testing::ValuesIn(test::collective_contract()),
                         [](const auto& given) { return given.param.name; });

TEST(SelfCollective, StartsNothingBeforeTheFenceIsReached) {
  const auto gate = std::make_shared<FenceGate>();
  SelfCollective collective;
  collective.after(Fence(gate));
  TypedArray input(DType::kF32, std::vector<double>{2, 4});
  TypedArray output(DType::kF32, 2);
  const Slice slice = {input.view(), output.view()};
  const auto operation = collective.all_reduce({&slice, 1}, {.postscale = 0.5});
  EXPECT_FALSE(operation->advance());
  EXPECT_EQ(output.at(1), 0);
  gate->open = true;
  EXPECT_TRUE(operation->advance());
  EXPECT_EQ(output.at(1), 2);
}

TEST(SelfCollective, WorksOnceHoweverOftenItIsPolled) {
  SelfCollective collective;
  TypedArray array(DType::kF32, std::vector<double>{8});
  const Slice slice = {array.view(), array.view()};
  const auto operation = collective.all_reduce({&slice, 1}, {.postscale = 0.5});
  EXPECT_TRUE(operation->advance());
  EXPECT_TRUE(operation->advance());
  EXPECT_EQ(array.at(0), 4);
}

// Read-only memory shows that nothing is written: a copy would write the same bytes.
TEST(SelfCollective, InPlaceAndUnscaledWritesNothing) {
  static const float kReadOnly[] = {1, 2, 3};
  SelfCollective collective;
  const TensorView view = {const_cast<float*>(kReadOnly), 3, DType::kF32, {}};
  const Slice slice = {view, view};
  EXPECT_TRUE(collective.all_reduce({&slice, 1}, {})->advance());
  EXPECT_TRUE(collective.broadcast({&slice, 1}, 0)->advance());
}

TEST(SelfCollective, AbortFailsWhatHasNotRun) {
  SelfCollective collective;
  TypedArray array(DType::kF32, std::vector<double>{8});
  const Slice slice = {array.view(), array.view()};
  const auto operation = collective.broadcast({&slice, 1}, 0);
  collective.abort();
  EXPECT_THROW(operation->advance(), AbortedError);
}

TEST(SelfCollective, TransfersNothingBeforeTheFenceIsReached) {
  const auto gate = std::make_shared<FenceGate>();
  SelfCollective collective;
  TypedArray from(DType::kF32, std::vector<double>{3});
  TypedArray to(DType::kF32, 1);
  const auto receive = collective.receive(to.view(), 0, 1);
  collective.after(Fence(gate));
  const auto send = collective.send(from.view(), 0, 1);
  EXPECT_FALSE(send->advance());
  EXPECT_FALSE(receive->advance());
  EXPECT_EQ(to.at(0), 0);
  gate->open = true;
  EXPECT_TRUE(receive->advance());
  EXPECT_TRUE(send->advance());
  EXPECT_EQ(to.at(0), 3);
}

TEST(SelfCollective, AWithdrawnReceiveIsNotWritten) {
  SelfCollective collective;
  TypedArray from(DType::kF32, std::vector<double>{3});
  TypedArray to(DType::kF32, 1);
  collective.receive(to.view(), 0, 1).reset();
  const auto send = collective.send(from.view(), 0, 1);
  EXPECT_FALSE(send->advance());
  EXPECT_EQ(to.at(0), 0);
}

TEST(SelfCollective, AbortFailsWhatItsSubsetsHaveNotRun) {
  SelfCollective collective;
  const Rank only[] = {0};
  const auto subset = collective.subset(1, only);
  TypedArray array(DType::kF32, std::vector<double>{8});
  const auto receive = subset->receive(array.view(), 0, 0);
  EXPECT_FALSE(receive->advance());
  collective.abort();
  EXPECT_THROW(receive->advance(), AbortedError);
}

TEST(SelfCollective, RefusesARootThatIsNotThere) {
  SelfCollective collective;
  EXPECT_THROW(collective.broadcast({}, 1), InvalidArgumentError);
}

class SelfControlPlaneContract : public testing::TestWithParam<test::ControlPlaneCase> {};

TEST_P(SelfControlPlaneContract, Holds) {
  SelfControlPlane plane("here");
  GetParam().run(plane, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(Port, SelfControlPlaneContract,
                         testing::ValuesIn(test::control_plane_contract()),
                         [](const auto& given) { return given.param.name; });

TEST(SelfControlPlane, IsAWorldOfOneRank) {
  SelfControlPlane plane("here");
  EXPECT_EQ(plane.topology(), Topology{});
  EXPECT_EQ(plane.host_of(), std::vector<int>{0});
  EXPECT_EQ(plane.host_name(0), "here");
  EXPECT_FALSE(plane.poll().has_value());
}

TEST(SelfControlPlane, RefusesToSend) {
  SelfControlPlane plane("here");
  EXPECT_THROW(plane.send(1, {}), InternalError);
}

}  // namespace
}  // namespace hvd::engine
