#include "core/runtime/wake/submission_group.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/runtime.h"
#include "test/core/runtime/submissions.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine {
namespace {

class Group : public testing::Test {
 protected:
  explicit Group(DeviceKind device = DeviceKind::kCpu) : world_(2, {.device = device}) {
    for (Rank rank = 0; rank < 2; ++rank) {
      auto control = world_.control_plane(rank);
      if (rank == 0) bell_.emplace(control->doorbell());
      std::vector<std::unique_ptr<Collective>> collectives;
      collectives.push_back(world_.collective(rank));
      ranks_.push_back(
          std::make_unique<Runtime>(std::move(control), std::move(collectives), Config{}));
    }
  }

  // How often rank 0's engine is woken meanwhile; the other rank does nothing.
  template <typename Work>
  std::uint32_t wakes_during(Work work) {
    const std::uint32_t before = bell_->rings();
    work();
    return bell_->rings() - before;
  }
  void submit(DeviceKind device = DeviceKind::kCpu) {
    handles_.push_back(ranks_[0]->submit(test::barrier(name_ += "x", device)));
  }

  SimWorld world_;
  std::optional<Doorbell> bell_;
  std::vector<std::unique_ptr<Runtime>> ranks_;
  std::string name_;
  std::vector<Handle> handles_;
};

class GroupOnDevices : public Group {
 protected:
  GroupOnDevices() : Group(DeviceKind::kCuda) {}
};

TEST_F(Group, WakesNobody) {
  EXPECT_EQ(wakes_during([&] {
              const SubmissionGroup group;
              { const SubmissionGroup inner; }
              submit();
              submit();
            }),
            0u);
  EXPECT_EQ(wakes_during([&] { submit(); }), 1u);
}

TEST_F(Group, IsOfItsThreadAlone) {
  const SubmissionGroup group;
  EXPECT_EQ(wakes_during([&] { std::thread([&] { submit(); }).join(); }), 1u);
}

TEST_F(GroupOnDevices, LetsEachSubmissionWakeTheEngine) {
  EXPECT_NE(wakes_during([&] {
              const SubmissionGroup group;
              submit(DeviceKind::kCuda);
            }),
            0u);
}

}  // namespace
}  // namespace hvd::engine
