#include "core/runtime/runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/run_ranks.h"
#include "test/support/typed_array.h"

namespace hvd::engine {
namespace {

using test::allgather;
using test::allreduce;
using test::gathered;
using test::run_ranks;
using test::shared;
using test::SimRanks;

using Floats = std::vector<float>;

TEST(Runtime, ReducesEveryDType) {
  SimRanks ranks(2);
  run_ranks(2, [&](Rank rank) {
    for (const DType dtype : test::kAllDTypes) {
      const std::vector<double> values = {1.0 + rank, 4, 0};
      const auto array = std::make_shared<test::TypedArray>(dtype, values);
      const Lease lease = {array->view(), array};
      Submission submission;
      submission.request.name = name_of(dtype);
      submission.request.dtype = dtype;
      submission.request.shapes = {{3}};
      submission.parts.push_back({.input = lease, .output = lease});
      ranks[rank].submit(std::move(submission)).wait();
      const auto sum = dtype == DType::kBool ? std::vector<double>{1, 1, 0}  // a logical or
                                             : std::vector<double>{3, 8, 0};
      EXPECT_EQ(array->values(), sum) << name_of(dtype);
    }
  });
}

TEST(Runtime, EmptyTensorsTakePart) {
  SimRanks ranks(3);
  run_ranks(3, [&](Rank rank) {
    ranks[rank].submit(allreduce("nothing", shared<float>({}))).wait();
    const Handle none = ranks[rank].submit(allgather("no rows", shared<float>({}), 4));
    EXPECT_TRUE(gathered<float>(none.wait()).empty());
    EXPECT_EQ(test::rows_of(none.wait()), (std::vector<std::int64_t>{0, 0, 0}));
  });
}

TEST(Runtime, OneRanksLateSubmissionIsWaitedFor) {
  SimRanks ranks(2);
  const auto early = shared<float>({1});
  const auto late = shared<float>({2});
  const Handle handle = ranks[0].submit(allreduce("x", early));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(handle.done());
  ranks[1].submit(allreduce("x", late)).wait();
  handle.wait();
  EXPECT_EQ(*early, (Floats{3}));
}

class CountingCollective final : public test::ForwardingCollective {
 public:
  CountingCollective(std::unique_ptr<Collective> inner, std::atomic<int>& calls)
      : ForwardingCollective(std::move(inner)), calls_(calls) {}
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    ++calls_;
    return ForwardingCollective::all_reduce(slices, reduction);
  }

 private:
  std::atomic<int>& calls_;
};

// Rank 0 reduces them, from what came with the announcements.
TEST(Runtime, SmallAllreducesOfKnownNamesNeedNoOperation) {
  std::atomic<int> calls = 0;
  SimRanks ranks(3, {}, {}, [&](Rank, std::unique_ptr<Collective> inner) {
    return std::unique_ptr<Collective>(
        std::make_unique<CountingCollective>(std::move(inner), calls));
  });
  const auto reduce = [&](std::size_t numel) {
    calls = 0;
    std::vector<Handle> handles;
    for (Rank r = 0; r < 3; ++r) {
      handles.push_back(
          ranks[r].submit(allreduce("x" + std::to_string(numel), shared<float>(Floats(numel, 1)))));
    }
    for (const Handle& handle : handles) handle.wait();
    return calls.load();
  };
  EXPECT_EQ(reduce(4), 3);
  EXPECT_EQ(reduce(4), 0);
  EXPECT_EQ(reduce(4), 0);
  EXPECT_EQ(reduce(10000), 3);
  EXPECT_EQ(reduce(10000), 3);
}

// Says that it has to be called again although nothing runs, until it was called often.
class LingeringCollective final : public test::ForwardingCollective {
 public:
  LingeringCollective(std::unique_ptr<Collective> inner, std::atomic<int>& calls)
      : ForwardingCollective(std::move(inner)), calls_(calls) {}
  std::optional<Duration> poll_interval() const override {
    if (calls_ >= kCalls) return ForwardingCollective::poll_interval();
    return std::chrono::milliseconds(5);
  }
  std::optional<Duration> prepare_sleep() override { return poll_interval(); }
  void progress(TimePoint) override { ++calls_; }

  static constexpr int kCalls = 100;

 private:
  std::atomic<int>& calls_;
};

TEST(Runtime, ACollectiveThatLingersIsCalledThoughNothingRuns) {
  std::atomic<int> calls = 0;
  SimRanks ranks(2, {}, {}, [&](Rank, std::unique_ptr<Collective> inner) {
    return std::unique_ptr<Collective>(
        std::make_unique<LingeringCollective>(std::move(inner), calls));
  });
  const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
  while (calls < LingeringCollective::kCalls && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(calls, LingeringCollective::kCalls);
}

TEST(Runtime, RefusesADeviceWithoutABackend) {
  SimRanks ranks(2);
  EXPECT_THROW(
      ranks[0].submit(allreduce("x", shared<float>({1}), ReduceOp::kSum, DeviceKind::kCuda)),
      UnsupportedError);
}

TEST(Runtime, AHandleMayBeDroppedBeforeItsEnd) {
  SimRanks ranks(2);
  auto values = shared<float>({1});
  const std::weak_ptr<Floats> alive = values;
  static_cast<void>(ranks[0].submit(allreduce("x", values)));
  values.reset();
  ranks[1].submit(allreduce("x", shared<float>({2}))).wait();
  ranks[0].shutdown();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace hvd::engine
