#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "core/base/status.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/core/runtime/sim_ranks.h"

namespace hvd::engine::test {

// Where the device is, as a test wants it.
struct Point {
  std::atomic<bool> passed = false;
  std::atomic<bool> broken = false;
  std::atomic<bool> given_up = false;  // whoever waits: the device goes on

  void wait() const {
    while (!passed && !given_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (broken || given_up) throw PeerLostError("the device is broken");
  }
};

using PointPtr = std::shared_ptr<Point>;

class PointFence final : public Fence::State {
 public:
  explicit PointFence(PointPtr point, Fence inner = {}, bool in_stream_order = false)
      : point_(std::move(point)), inner_(std::move(inner)), in_stream_order_(in_stream_order) {}
  bool reached() override { return point_->passed && inner_.reached(); }
  void wait() override {
    point_->wait();
    inner_.wait();
  }
  bool in_stream_order() const override { return in_stream_order_; }

 private:
  PointPtr point_;
  Fence inner_;
  bool in_stream_order_;
};

inline Fence fence_at(const PointPtr& point) {
  return Fence(std::make_shared<PointFence>(point));
}

// Counts what is started; its fences lie at a point of the test's as well.
class WatchedDevice final : public ForwardingCollective {
 public:
  struct Seen {
    PointPtr point = std::make_shared<Point>();
    bool in_stream_order = false;
    std::atomic<int> started = 0;
    std::atomic<int> written = 0;
  };

  WatchedDevice(std::unique_ptr<Collective> inner, std::shared_ptr<Seen> seen)
      : ForwardingCollective(std::move(inner)), seen_(std::move(seen)) {}

  void write(const void* from, void* to, std::size_t bytes) override {
    ++seen_->written;
    ForwardingCollective::write(from, to, bytes);
  }
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    ++seen_->started;
    return ForwardingCollective::all_reduce(slices, reduction);
  }
  Fence fence() override {
    return Fence(std::make_shared<PointFence>(seen_->point, ForwardingCollective::fence(),
                                              seen_->in_stream_order));
  }

 private:
  std::shared_ptr<Seen> seen_;
};

class AsyncDevice : public testing::Test {
 protected:
  static constexpr SimOptions kDevice = {.asynchronous = true, .device = DeviceKind::kCuda};

  SimRanks ranks_of(int size, const Config& config = {}) {
    return SimRanks(size, kDevice, config, [this](Rank, std::unique_ptr<Collective> inner) {
      return std::make_unique<WatchedDevice>(std::move(inner), seen_);
    });
  }
  static Submission allreduce(const std::string& name, const Values<float>& values) {
    return test::allreduce(name, values, ReduceOp::kSum, DeviceKind::kCuda);
  }

  std::shared_ptr<WatchedDevice::Seen> seen_ = std::make_shared<WatchedDevice::Seen>();
};

}  // namespace hvd::engine::test
