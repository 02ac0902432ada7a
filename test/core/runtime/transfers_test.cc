// Sends and receives.

#include "core/runtime/transfers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "test/core/runtime/gated_control_plane.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/core/runtime/watched_device.h"
#include "test/support/run_ranks.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using test::allreduce;
using test::receive;
using test::run_ranks;
using test::send;
using test::shared;
using test::SimRanks;

using Floats = std::vector<float>;

class RuntimeTransfers : public testing::TestWithParam<bool> {
 protected:
  // Asynchronous or not.
  SimOptions options() const { return {.asynchronous = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(All, RuntimeTransfers, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Async" : "Sync"; });

TEST_P(RuntimeTransfers, PairUpByRankAndTagInOrder) {
  SimRanks ranks(3, options());
  run_ranks(3, [&](Rank rank) {
    std::vector<Handle> handles;
    std::vector<std::pair<test::Values<float>, float>> expected;
    for (Rank peer = 0; peer < 3; ++peer) {
      for (int i = 0; i < 4; ++i) {
        for (int tag = 0; tag < 3; ++tag) {
          const auto mark = [&](Rank from, Rank to) {
            return static_cast<float>(((from * 10 + to) * 10 + tag) * 10 + i);
          };
          const auto got = shared<float>({-1, -1});
          expected.emplace_back(got, mark(peer, rank));
          // The two ends come in different orders.
          const auto sent = shared<float>({mark(rank, peer), 0});
          handles.push_back(ranks[rank].submit(send(sent, peer, tag)));
          handles.push_back(ranks[rank].submit(receive(got, peer, tag)));
        }
      }
    }
    for (const Handle& handle : handles) handle.wait();
    for (const auto& [got, mark] : expected) EXPECT_EQ(*got, (Floats{mark, 0}));
  });
}

TEST_P(RuntimeTransfers, MoveBesideCollectives) {
  SimRanks ranks(2, options());
  run_ranks(2, [&](Rank rank) {
    const auto early = shared<float>({0});
    const Handle pending = ranks[rank].submit(receive(early, 1 - rank, 7));
    for (int i = 0; i < 20; ++i) {
      const auto sum = shared<float>({1});
      ranks[rank].submit(allreduce("x", sum)).wait();
      EXPECT_EQ(sum->front(), 2);
    }
    EXPECT_FALSE(pending.done());
    ranks[rank].submit(test::barrier("before the sends")).wait();
    ranks[rank].submit(send(shared<float>({5}), 1 - rank, 7)).wait();
    pending.wait();
    EXPECT_EQ(early->front(), 5);
  });
}

TEST_P(RuntimeTransfers, ToOneselfNeedOnlyBothEnds) {
  SimRanks ranks(2, options());
  const auto got = shared<float>({0});
  const Handle sent = ranks[1].submit(send(shared<float>({3}), 1, 0));
  EXPECT_FALSE(sent.wait_for(milliseconds(20)));
  ranks[1].submit(receive(got, 1, 0)).wait();
  sent.wait();
  EXPECT_EQ(got->front(), 3);
}

TEST_P(RuntimeTransfers, AMismatchFailsBothEndsAndNothingElse) {
  SimRanks ranks(2, options());
  const auto got = shared<float>({0});
  const Handle good = ranks[1].submit(receive(got, 0, 2));
  const Handle longer = ranks[0].submit(send(shared<float>({1, 2}), 1, 1));
  const Handle shorter = ranks[1].submit(receive(shared<float>({0}), 0, 1));
  EXPECT_THROW(longer.wait(), MismatchError);
  EXPECT_THROW(shorter.wait(), MismatchError);
  ranks[0].submit(send(shared<float>({4}), 1, 2)).wait();
  good.wait();
  EXPECT_EQ(got->front(), 4);
  EXPECT_TRUE(ranks[0].stopped().ok());
}

TEST_P(RuntimeTransfers, AreRefusedBeforeTheyStart) {
  SimRanks ranks(2, options());
  EXPECT_THROW(ranks[0].submit(send(shared<float>({1}), 2, 0)), InvalidArgumentError);
  EXPECT_THROW(ranks[0].submit(receive(shared<float>({1}), 1, -1)), InvalidArgumentError);
  EXPECT_THROW(ranks[0].submit(send(shared<float>({1}), 1, 0, DeviceKind::kCuda)),
               UnsupportedError);
}

TEST_P(RuntimeTransfers, ThatWaitTooLongFailAloneAndSayForWhom) {
  const auto config_of = [](Rank rank) {
    Config config;
    if (rank == 0) config.stall_warning = milliseconds(30);
    if (rank == 0) config.stall_limit = milliseconds(120);
    return config;
  };
  SimRanks ranks(config_of, 2, options());
  ranks[0].change_settings([](NegotiationSettings& settings) {  // those of collectives
    settings.stall_warning = settings.stall_limit = Duration::zero();
  });
  test::Gate reported;
  reported.close();
  std::vector<std::string> reports;
  ranks[0].on_stall([&](const std::string& text) {
    reports.push_back(text);
    reported.open();
  });
  testing::internal::CaptureStderr();
  const Handle lonely = ranks[0].submit(receive(shared<float>({0}), 1, 42));
  try {
    lonely.wait();
    ADD_FAILURE() << "rank 1 sent nothing";
  } catch (const StalledError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("receive from rank 1 with tag 42 (1 of float32)"), std::string::npos)
        << text;
  }
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
    try {
      handle.wait();
      ADD_FAILURE() << "nobody was there";
    } catch (const AbortedError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
    }
  }
  ranks[0].shutdown();
  EXPECT_THROW(ranks[0].submit(receive(shared<float>({0}), 1, 0)), AbortedError);
}

TEST_P(RuntimeTransfers, FailWhenAPeerDies) {
  SimRanks ranks(3, options());
  const Handle receiving = ranks[0].submit(receive(shared<float>({0}), 1, 0));
  const Handle other = ranks[2].submit(receive(shared<float>({0}), 0, 0));
  ranks.world.kill(1);
  EXPECT_THROW(receiving.wait(), PeerLostError);
  EXPECT_THROW(other.wait(), PeerLostError);
}

// The sender leaves as soon as its end is done; the receiver may not have looked yet.
TEST_P(RuntimeTransfers, ThatMetBeforeAShutdownStillEnd) {
  for (int round = 0; round < 50; ++round) {
    SimRanks ranks(2, options());
    run_ranks(2, [&](Rank rank) {
      if (rank == 0) {
        ranks[0].submit(send(shared<float>({1}), 1, 0)).wait();
        ranks[0].shutdown();
      } else {
        const auto got = shared<float>({0});
        ranks[1].submit(receive(got, 0, 0)).wait();
        EXPECT_EQ(got->front(), 1);
      }
    });
  }
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

TEST(Transfers, KeepTensorsAliveUntilTheyEnd) {
  SimRanks ranks(2);
  auto values = shared<float>({1});
  const std::weak_ptr<Floats> alive = values;
  const Handle handle = ranks[0].submit(send(values, 1, 0));
  values.reset();
  EXPECT_FALSE(alive.expired());
  ranks[1].submit(receive(shared<float>({0}), 0, 0)).wait();
  handle.wait();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace hvd
