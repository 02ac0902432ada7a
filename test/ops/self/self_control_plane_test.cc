#include "ops/self/self_control_plane.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

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
