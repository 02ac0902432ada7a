// Sends and receives.

#include "core/runtime/transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "test/core/runtime/gated_control_plane.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/core/runtime/watched_device.h"
#include "test/support/message_of.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using test::allreduce;
using test::receive;
using test::run_ranks;
using test::send;
using test::shared;
using test::SimRanks;
using test::within;

using Floats = std::vector<float>;

class RuntimeTransfers : public testing::TestWithParam<bool> {
 protected:
  // Asynchronous or not.
  SimOptions options() const { return {.asynchronous = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(All, RuntimeTransfers, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Async" : "Sync"; });

TEST_P(RuntimeTransfers, ThatWaitTooLongFailAloneAndSayForWhom) {
  test::Gate reported;
  reported.close();
  std::vector<std::string> reports;
  SimRanks ranks(2, options());
  ranks[0].notifier().on_stall([&](const std::string& text) {
    reports.push_back(text);
    reported.open();
  });
  testing::internal::CaptureStderr();
  const WaitLimits limits = {.warning = milliseconds(30), .limit = milliseconds(120)};
  const Handle lonely = ranks[0].submit(within(limits, receive(shared<float>({0}), 1, 42)));
  EXPECT_THAT(message_of<StalledError>([&] { lonely.wait(); }),
              testing::HasSubstr("receive from rank 1 with tag 42 (1 of float32, 4 bytes)"));
  run_ranks(2, [&](Rank rank) { ranks[rank].submit(allreduce("x", shared<float>({1}))).wait(); });
  reported.pass();         // hangs, and the test's limit ends it, if nobody is ever told
  ranks.runtimes.clear();  // the notifier thread has ended
  EXPECT_NE(testing::internal::GetCapturedStderr().find("tag 42"), std::string::npos);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_NE(reports[0].find("tag 42"), std::string::npos) << reports[0];
}

TEST_P(RuntimeTransfers, FailWithTheReasonOfTheStop) {
  SimRanks ranks(3, options());
  const Handle receiving = ranks[0].submit(receive(shared<float>({0}), 1, 0));
  const Handle sending = ranks[1].submit(send(shared<float>({0}), 2, 0));
  ranks[2].shutdown();
  for (const Handle& handle : {receiving, sending}) {
    EXPECT_THAT(message_of<AbortedError>([&] { handle.wait(); }), testing::HasSubstr("rank 2"));
  }
  ranks[0].shutdown();
  EXPECT_THROW(ranks[0].submit(receive(shared<float>({0}), 1, 0)), AbortedError);
}

TEST_P(RuntimeTransfers, ThatARankLeavesBehindAreNamedAtBothEnds) {
  SimRanks ranks(2, options());
  const Handle sending = ranks[0].submit(send(shared<float>({0}), 1, 7));
  const Handle receiving = ranks[1].submit(receive(shared<float>({0}), 0, 8));
  testing::internal::CaptureStderr();
  ranks[0].shutdown();
  const std::string told = test::error_of(receiving);
  EXPECT_TRUE(told.starts_with(
      "receive from rank 0 with tag 8 (1 of float32, 4 bytes): rank 0 left the job"))
      << told;
  EXPECT_THAT(message_of<AbortedError>([&] { ranks[1].submit(receive(shared<float>({0}), 0, 9)); }),
              testing::StartsWith(
                  "receive from rank 0 with tag 9 (1 of float32, 4 bytes) was not submitted: "
                  "rank 0 left the job"));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("left the job with an unfinished send to rank 1 with tag 7 (1 of float32, 4 "
                      "bytes)"),
            std::string::npos)
      << said;
}

TEST_P(RuntimeTransfers, FailWhenAPeerDies) {
  SimRanks ranks(3, options());
  const Handle receiving = ranks[0].submit(receive(shared<float>({0}), 1, 0));
  const Handle other = ranks[2].submit(receive(shared<float>({0}), 0, 0));
  ranks.world.kill(1);
  EXPECT_THROW(receiving.wait(), PeerLostError);
  EXPECT_THROW(other.wait(), PeerLostError);
}

// On the host both ends have met; on the device the copies are still to be made.
TEST(Transfers, WhatADeviceMayStillUseIsKept) {
  constexpr SimOptions kDevice = {.asynchronous = true, .device = DeviceKind::kCuda};
  const auto seen = std::make_shared<test::WatchedDevice::Seen>();
  Config config;
  config.stall_limit = milliseconds(100);
  SimRanks ranks(1, kDevice, config, [&](Rank, std::unique_ptr<Collective> inner) {
    return std::make_unique<test::WatchedDevice>(std::move(inner), seen);
  });
  auto tensor = shared<float>({1});
  const std::weak_ptr<Floats> memory = tensor;
  {
    const Handle sent =
        ranks[0].submit(send(std::exchange(tensor, nullptr), 0, 0, DeviceKind::kCuda));
    const Handle received = ranks[0].submit(receive(shared<float>({0}), 0, 0, DeviceKind::kCuda));
    EXPECT_THROW(sent.wait(), StalledError);
    EXPECT_THROW(received.wait(), StalledError);
  }
  EXPECT_FALSE(memory.expired());
  seen->point->passed = true;
  const Handle alone = ranks[0].submit(send(shared<float>({1}), 0, 1, DeviceKind::kCuda));
  EXPECT_THROW(alone.wait(), StalledError);
  EXPECT_TRUE(memory.expired());
}

}  // namespace
}  // namespace hvd::engine
