// What the engine does with a device that works behind the host's back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/negotiate/decision.h"
#include "core/runtime/arena.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/core/runtime/watched_device.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::fence_at;
using test::Point;
using test::PointFence;
using test::PointPtr;
using test::run_ranks;
using test::shared;
using test::SimRanks;
using test::WatchedDevice;

class AsyncDevice : public test::AsyncDevice {};

TEST_F(AsyncDevice, BatchesInFlightAreBounded) {
  Config config;
  config.fusion_threshold = 0;
  SimRanks ranks = ranks_of(2, config);
  std::vector<test::Values<float>> values;
  std::vector<Handle> handles;
  for (Rank rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 20; ++i) {
      values.push_back(shared<float>({1}));
      handles.push_back(ranks[rank].submit(allreduce(std::to_string(i), values.back())));
    }
  }
  const int most = 2 * NegotiationSettings{}.batches_in_flight;
  const TimePoint deadline = Clock::now() + seconds(20);
  while (seen_->started < most && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(seen_->started, most);
  for (const Handle& handle : handles) EXPECT_FALSE(handle.done());
  seen_->point->passed = true;
  for (const Handle& handle : handles) handle.wait();
  for (const auto& each : values) EXPECT_EQ(each->front(), 2);
  EXPECT_EQ(seen_->started, 2 * 20);
}

TEST_F(AsyncDevice, TheProducerIsNotWaitedForByTheHost) {
  seen_->point->passed = true;
  SimRanks ranks = ranks_of(2);
  const auto produced = std::make_shared<Point>();
  std::vector<test::Values<float>> values;
  std::vector<Handle> handles;
  for (Rank rank = 0; rank < 2; ++rank) {
    values.push_back(shared<float>({0}));
    Submission submission = allreduce("late", values.back());
    submission.ready = fence_at(produced);
    handles.push_back(ranks[rank].submit(std::move(submission)));
  }
  const TimePoint deadline = Clock::now() + seconds(20);
  while (seen_->started < 2 && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(seen_->started, 2);  // behind the producer, on the device
  EXPECT_FALSE(handles[0].done());
  for (const auto& each : values) each->front() = 3;
  produced->passed = true;
  for (const Handle& handle : handles) handle.wait();
  for (const auto& each : values) EXPECT_EQ(each->front(), 6);
}

TEST_F(AsyncDevice, ADeviceThatHangsEndsTheHandlesAndIsLeftBehind) {
  const auto kept = shared<float>({1});
  const std::weak_ptr<std::vector<float>> memory = kept;
  {
    SimRanks ranks = ranks_of(2);
    const Handle handle = ranks[0].submit(allreduce("x", kept));
    ranks[1].submit(allreduce("x", shared<float>({1})));
    const TimePoint deadline = Clock::now() + seconds(20);
    while (seen_->started < 2 && Clock::now() < deadline) std::this_thread::yield();
    ranks.world.kill(1);
    EXPECT_THROW(handle.wait(), PeerLostError);
  }
  seen_->point->passed = true;  // the thread that waited for it finds nobody
  std::this_thread::sleep_for(milliseconds(50));
}

TEST_F(AsyncDevice, WhatADeviceMayStillUseIsKeptWhenTheWaitForItFails) {
  auto tensor = shared<float>({1});
  const std::weak_ptr<std::vector<float>> memory = tensor;
  {
    SimRanks ranks = ranks_of(2);
    const Handle other = ranks[1].submit(allreduce("x", shared<float>({1})));
    {
      const Handle handle = ranks[0].submit(allreduce("x", std::exchange(tensor, nullptr)));
      while (seen_->started < 2) std::this_thread::yield();
      seen_->point->given_up = true;
      EXPECT_THROW(handle.wait(), Error);
    }
    EXPECT_THROW(other.wait(), Error);
    EXPECT_FALSE(memory.expired());
  }
  EXPECT_FALSE(memory.expired());
}

// What a batch has enqueued may use its tensors although it never began to wait for the device.
class StuckOperation final : public Operation {
 public:
  explicit StuckOperation(std::function<void()> destroyed) : destroyed_(std::move(destroyed)) {}
  ~StuckOperation() override { destroyed_(); }
  bool advance() override { return false; }

 private:
  std::function<void()> destroyed_;
};

class StuckDevice final : public test::ForwardingCollective {
 public:
  StuckDevice(std::unique_ptr<Collective> inner, PointPtr point, std::atomic<int>& started,
              std::function<void()> destroyed)
      : ForwardingCollective(std::move(inner)),
        point_(std::move(point)),
        started_(started),
        destroyed_(std::move(destroyed)) {}
  std::unique_ptr<Operation> all_reduce(std::span<const Slice>, const Reduction&) override {
    ++started_;
    return std::make_unique<StuckOperation>(destroyed_);
  }
  Fence fence() override { return fence_at(point_); }
  void abort() noexcept override {
    ForwardingCollective::abort();
    std::thread([point = point_] {  // the device needs a moment to end what it has
      std::this_thread::sleep_for(milliseconds(100));
      point->passed = true;
    })
        .detach();
  }

 private:
  PointPtr point_;
  std::atomic<int>& started_;
  std::function<void()> destroyed_;
};

TEST_F(AsyncDevice, AbortWaitsForWhatABatchHasEnqueued) {
  std::atomic<int> started = 0;
  std::atomic<int> early = 0;
  std::atomic<int> gone = 0;
  {
    SimRanks ranks(2, kDevice, {}, [&](Rank, std::unique_ptr<Collective> inner) {
      const auto point = std::make_shared<Point>();
      return std::make_unique<StuckDevice>(std::move(inner), point, started, [&, point] {
        ++gone;
        if (!point->passed) ++early;
      });
    });
    const Handle handle = ranks[0].submit(allreduce("x", shared<float>({1})));
    ranks[1].submit(allreduce("x", shared<float>({1})));
    while (started < 2) std::this_thread::sleep_for(milliseconds(1));
    ranks.world.kill(1);
    EXPECT_THROW(handle.wait(), PeerLostError);
  }
  EXPECT_EQ(gone, 2);
  EXPECT_EQ(early, 0);
}

TEST_F(AsyncDevice, AnArenaLiesOnTheDeviceAndIsReducedInPlace) {
  seen_->point->passed = true;
  SimRanks ranks = ranks_of(2);
  run_ranks(2, [&](Rank rank) {
    const auto arena =
        ranks[rank].make_arena("gradients", 4096, kWorldSet, {DeviceKind::kCuda, 1}).wait();
    EXPECT_TRUE(arena->shared());
    const Lease mine = arena->take(16, DType::kF32);
    EXPECT_EQ(mine.view.device, (Device{DeviceKind::kCuda, 1}));
    std::fill_n(static_cast<float*>(mine.view.data), 16, static_cast<float>(rank + 1));
    Submission submission = allreduce("w", shared<float>(std::vector<float>(16)));
    submission.parts[0] = {.input = mine, .output = mine};
    ranks[rank].submit(std::move(submission)).wait();
    EXPECT_EQ(*static_cast<float*>(mine.view.data), 3);
  });
}

TEST_F(AsyncDevice, MemoryThatIsSaidToBeTheHostsIsInNoArenaOfADevice) {
  const auto memory = shared<float>(std::vector<float>(64));
  ArenaRegistry registry;
  registry.add(
      Arena(7, kWorldSet, {{memory->data(), 256, DType::kU8, {DeviceKind::kCuda, 0}}, memory}));
  Submission on_host = test::allreduce("w", memory);
  registry.place(on_host);
  EXPECT_EQ(on_host.request.place.arena, 0u);
  Submission on_device = allreduce("w", memory);
  registry.place(on_device);
  EXPECT_EQ(on_device.request.place.arena, 7u);
}

TEST_F(AsyncDevice, AJoinedRankWritesNeutralElementsByTheDevice) {
  seen_->point->passed = true;
  SimRanks ranks = ranks_of(2);
  run_ranks(2, [&](Rank rank) {
    if (rank == 0) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin}) {
        const auto values = shared<float>({5, -3});
        ranks[rank]
            .submit(test::allreduce("x." + std::string(name_of(op)), values, op, DeviceKind::kCuda))
            .wait();
        EXPECT_EQ(*values, (std::vector<float>{5, -3}));
      }
    }
    ranks[rank].submit(test::join("end")).wait();
  });
  EXPECT_EQ(seen_->written, 2);
}

// A world of one rank.
class SoloDevice : public AsyncDevice {};

TEST_F(SoloDevice, SubmitWaitsNeitherForTheProducerNorForTheDevice) {
  SimRanks ranks = ranks_of(1);
  const auto produced = std::make_shared<Point>();
  std::vector<Handle> handles;
  std::vector<test::Values<float>> values;
  for (int i = 0; i < 10; ++i) {
    values.push_back(shared<float>({0}));
    Submission submission = allreduce(std::to_string(i), values.back());
    submission.request.postscale = 2;
    submission.ready = fence_at(produced);
    handles.push_back(ranks[0].submit(std::move(submission)));
  }
  for (const Handle& handle : handles) EXPECT_FALSE(handle.done());
  for (const auto& each : values) each->front() = 4;
  produced->passed = true;
  seen_->point->passed = true;
  for (const Handle& handle : handles) handle.wait();
  for (const auto& each : values) EXPECT_EQ(each->front(), 8);
}

TEST_F(SoloDevice, ADeviceThatFailsEndsTheHandleAndTheJob) {
  SimRanks ranks = ranks_of(1);
  const Handle handle = ranks[0].submit(allreduce("x", shared<float>({1})));
  seen_->point->broken = true;
  seen_->point->passed = true;
  EXPECT_THROW(handle.wait(), PeerLostError);
  EXPECT_THROW(ranks[0].submit(allreduce("y", shared<float>({1}))), PeerLostError);
}

TEST_F(SoloDevice, ShutdownLetsTheDeviceFinish) {
  SimRanks ranks = ranks_of(1);
  const auto values = shared<float>({1});
  const Handle handle = ranks[0].submit(allreduce("x", values));
  std::thread device([point = seen_->point] {
    std::this_thread::sleep_for(milliseconds(50));
    point->passed = true;
  });
  ranks[0].shutdown();
  EXPECT_TRUE(handle.done());
  EXPECT_NO_THROW(handle.wait());
  device.join();
}

TEST_F(SoloDevice, AJoinEndsAfterWhatWasSubmittedBefore) {
  SimRanks ranks = ranks_of(1);
  const Handle handle = ranks[0].submit(allreduce("x", shared<float>({1})));
  const Handle join = ranks[0].submit(test::join("join"));
  EXPECT_FALSE(join.wait_for(milliseconds(20)));
  seen_->point->passed = true;
  EXPECT_EQ(join.wait().number, 0);
  EXPECT_TRUE(handle.done());
}

TEST_F(SoloDevice, GatheredRowsAreThereWhenTheHandleEnds) {
  seen_->point->passed = true;
  SimRanks ranks = ranks_of(1);
  const Handle handle =
      ranks[0].submit(test::allgather("rows", shared<float>({1, 2}), 1, DeviceKind::kCuda));
  EXPECT_EQ(test::gathered<float>(handle.wait()), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace hvd::engine
