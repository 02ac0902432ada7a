#include "ops/self/self_control_plane.h"

#include <gtest/gtest.h>

#include "test/support/control_plane_contract.h"

namespace hvd {
namespace {

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
}  // namespace hvd
