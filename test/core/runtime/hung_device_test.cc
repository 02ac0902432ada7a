// What becomes of a device that does not finish its work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/runtime/coordinator.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/core/runtime/watched_device.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::shared;
using test::SimRanks;
using test::WatchedDevice;
using testing::HasSubstr;

constexpr SimOptions kDevice = {.asynchronous = true, .device = DeviceKind::kCuda};

Config deferred_for(Duration warning, Duration limit) {
  Config config;
  config.stall_warning = warning;
  config.stall_limit = limit;
  return config;
}

std::string error_of(const Handle& handle) {
  try {
    handle.wait();
  } catch (const StalledError& error) {
    return error.what();
  }
  return "no StalledError";
}

// The devices of all ranks but those of `healthy` hang.
class HungDevice : public testing::Test {
 protected:
  SimRanks ranks_of(int size, const Config& config, std::vector<Rank> healthy = {}) {
    let_go();  // of an earlier job's
    SimRanks ranks(size, kDevice, config, [&](Rank rank, std::unique_ptr<Collective> inner) {
      auto seen = std::make_shared<WatchedDevice::Seen>();
      for (const Rank each : healthy) {
        if (each == rank) seen->point->passed = true;
      }
      seen_.push_back(seen);
      return std::make_unique<WatchedDevice>(std::move(inner), seen);
    });
    // The thread that a device keeps is left behind, and what it uses with it.
    static auto* const retired_resources = new std::vector<SimWorld>;
    retired_resources->push_back(ranks.world);
    return ranks;
  }
  // Those that wait for a device find nobody any more.
  void let_go() {
    for (const auto& each : seen_) each->point->passed = true;
    seen_.clear();
  }
  void TearDown() override { let_go(); }
  // It is under way on all of them. Throws StalledError if that takes longer than the limit.
  std::vector<Handle> start(SimRanks& ranks, const std::string& name) {
    std::vector<Handle> handles;
    for (Rank rank = 0; rank < ranks.size(); ++rank) {
      handles.push_back(ranks[rank].submit(
          test::allreduce(name, shared<float>({1}), ReduceOp::kSum, DeviceKind::kCuda)));
    }
    for (const auto& each : seen_) {
      while (each->started == 0) {
        ranks[0].stopped().throw_if_error();
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
    return handles;
  }

  std::vector<std::shared_ptr<WatchedDevice::Seen>> seen_;
};

// What is logged, and what the handles of a job end with that shuts down while its devices hang.
struct HungShutdown {
  std::string log;
  std::vector<std::string> errors;

  bool gave_up_at_the_end() const {
    return std::all_of(errors.begin(), errors.end(), [](const std::string& error) {
      return error.find("gave up after") != std::string::npos;
    });
  }
};

class HungDeviceAtShutdown : public HungDevice {
 protected:
  HungShutdown shut_down(int size) {
    HungShutdown seen;
    testing::internal::CaptureStderr();
    {
      SimRanks ranks = ranks_of(size, deferred_for(seconds(0), seconds(1)));
      std::vector<Handle> handles;
      try {
        handles = start(ranks, "weights");
      } catch (const StalledError& error) {
        seen.errors.emplace_back(error.what());
      }
      test::run_ranks(size, [&](Rank rank) { ranks[rank].shutdown(); });
      for (const Handle& handle : handles) seen.errors.push_back(error_of(handle));
    }
    seen.log = testing::internal::GetCapturedStderr();
    return seen;
  }
  // A process that gets no time for as long as the stall limit gives up before it shuts down.
  HungShutdown shut_down_in_time(int size) {
    HungShutdown seen = shut_down(size);
    for (int i = 0; i < 20 && !seen.gave_up_at_the_end(); ++i) seen = shut_down(size);
    return seen;
  }
};

TEST_F(HungDeviceAtShutdown, IsWaitedForNoLongerThanForAStall) {
  const HungShutdown seen = shut_down_in_time(2);
  EXPECT_THAT(seen.log, HasSubstr("shutting down waits up to 1 s for what is still running: "
                                  "allreduce \"weights\" on CUDA device 0, submitted "));
  for (const std::string& error : seen.errors) {
    EXPECT_THAT(error, HasSubstr("gave up after "));
    EXPECT_THAT(error, HasSubstr("allreduce \"weights\" on CUDA device 0"));
  }
}

TEST_F(HungDeviceAtShutdown, IsNotWaitedForByOneRankEither) {
  const HungShutdown seen = shut_down_in_time(1);
  EXPECT_THAT(seen.log, HasSubstr("shutting down waits up to 1 s for what is still running: "
                                  "allreduce \"weights\" on CUDA device 0, submitted "));
  EXPECT_THAT(seen.errors[0],
              HasSubstr("rank 0 left the job after 1 submission (it ended, or called "
                        "shutdown()); gave up after "));
}

TEST_F(HungDevice, OneRankIsWarnedAndGivesUp) {
  testing::internal::CaptureStderr();
  SimRanks ranks = ranks_of(1, deferred_for(milliseconds(50), seconds(1)));
  const std::vector<Handle> handles = start(ranks, "weights");
  EXPECT_THAT(error_of(handles[0]),
              HasSubstr("stalled, giving up: allreduce \"weights\" on CUDA device 0"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("stalled: allreduce \"weights\" on CUDA device 0, submitted "));
  EXPECT_THROW(start(ranks, "more"), StalledError);
}

TEST_F(HungDevice, OneRankWaitsForEverIfItIsToldTo) {
  testing::internal::CaptureStderr();
  SimRanks ranks = ranks_of(1, deferred_for(milliseconds(1), seconds(0)));
  const std::vector<Handle> handles = start(ranks, "weights");
  EXPECT_FALSE(handles[0].wait_for(milliseconds(100)));
  for (const auto& each : seen_) each->point->passed = true;
  EXPECT_NO_THROW(handles[0].wait());
  testing::internal::GetCapturedStderr();
}

// Rank 0, whose device is done, does not see that another one's is not. Its limit is the job's.
TEST_F(HungDevice, OfAnotherRankThanTheFirstEndsTheJob) {
  SimRanks ranks = ranks_of(2, deferred_for(seconds(0), seconds(0)), {0});
  const std::vector<Handle> handles = start(ranks, "weights");
  ranks[0].coordinator().change_settings(
      [](NegotiationSettings& settings) { settings.stall_limit = seconds(1); });
  EXPECT_THAT(error_of(handles[1]), HasSubstr("stalled, giving up: "));
  while (ranks[0].stopped().ok()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_THAT(ranks[0].stopped().message(), HasSubstr("stalled, giving up: "));
}

}  // namespace
}  // namespace hvd::engine
