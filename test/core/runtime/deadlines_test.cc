// How long shutdown() takes when another rank is stopped, against core/base/deadlines.h.

#include "core/base/deadlines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "test/core/runtime/gated_control_plane.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::allreduce;
using test::Gate;
using test::shared;

constexpr int kSize = 3;

Config soon() {
  Config config;
  config.shutdown_timeout = milliseconds(100);
  config.stall_warning = Duration::zero();
  config.stall_limit = seconds(10);
  return config;
}

// A world in which one rank's coordinator hangs in its port, as that of a stopped process does.
class StoppedRank {
 public:
  explicit StoppedRank(Rank stopped, const Config& config) : stopped_(stopped) {
    for (Rank rank = 0; rank < kSize; ++rank) {
      std::vector<std::unique_ptr<Collective>> collectives;
      collectives.push_back(world_.collective(rank));
      std::unique_ptr<ControlPlane> control = world_.control_plane(rank);
      if (rank == stopped) {
        control = std::make_unique<test::GatedControlPlane>(std::move(control), gate_);
      }
      ranks_.push_back(
          std::make_unique<Runtime>(std::move(control), std::move(collectives), config));
    }
    test::run_ranks(kSize, [&](Rank rank) {
      ranks_[static_cast<std::size_t>(rank)]->submit(allreduce("x", shared<float>({1}))).wait();
    });
    gate_->close();
    world_.control_plane(stopped)->doorbell().ring();
    gate_->wait_for_visitor();
  }
  ~StoppedRank() { gate_->open(); }
  StoppedRank(const StoppedRank&) = delete;
  StoppedRank& operator=(const StoppedRank&) = delete;

  Runtime& operator[](Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  SimWorld& world() { return world_; }

  // Of the others, all at once.
  Duration longest_shutdown() {
    std::vector<Duration> took(kSize, Duration::zero());
    test::run_ranks(kSize, [&](Rank rank) {
      if (rank == stopped_) return;
      const TimePoint begin = Clock::now();
      (*this)[rank].shutdown();
      took[static_cast<std::size_t>(rank)] = Clock::now() - begin;
    });
    return *std::max_element(took.begin(), took.end());
  }

 private:
  const Rank stopped_;
  SimWorld world_{kSize};
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::vector<std::unique_ptr<Runtime>> ranks_;
};

class Deadlines : public testing::TestWithParam<Rank> {};

INSTANTIATE_TEST_SUITE_P(Stopped, Deadlines, testing::Values(0, 1));

TEST_P(Deadlines, ShutdownBesideAStoppedRankEndsInTime) {
  const Config config = soon();
  StoppedRank ranks(GetParam(), config);
  EXPECT_LT(ranks.longest_shutdown(),
            longest_shutdown(config.shutdown_timeout, config.stall_limit));
}

// Rank 0 finds out by itself that another rank died; who waits for a rank 0 that is stopped learns
// it from the stall limit.
TEST(ShutdownTime, IsShorterAfterAnError) {
  StoppedRank ranks(1, Config{});
  ranks.world().kill(2);
  EXPECT_THROW(ranks[0].submit(allreduce("y", shared<float>({1}))).wait(), PeerLostError);
  EXPECT_TRUE(ranks[0].ended_in_error());
  const TimePoint begin = Clock::now();
  ranks[0].shutdown();
  EXPECT_LT(Clock::now() - begin, 10 * kLongestShutdownAfterError);  // the machine may be busy
}

TEST(ShutdownTime, TheStallLimitBoundsWhatIsLeftToRun) {
  const auto shutdown = [](Duration stall_limit) { return longest_shutdown({}, stall_limit); };
  EXPECT_EQ(shutdown(Duration::zero()), shutdown(seconds(600)));
  EXPECT_EQ(shutdown(seconds(600)) - shutdown(seconds(2)), kDrainLimit - seconds(2));
}

}  // namespace
}  // namespace hvd::engine
