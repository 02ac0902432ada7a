#include "core/runtime/runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/run_ranks.h"
#include "test/support/typed_array.h"

namespace hvd {
namespace {

using test::allgather;
using test::allreduce;
using test::broadcast;
using test::gathered;
using test::run_ranks;
using test::shared;
using test::SimRanks;

using Floats = std::vector<float>;

struct Flavour {
  std::string name;
  SimOptions options;
};

// A device of another kind, whose work is enqueued: what a GPU will look like.
constexpr SimOptions kDevice = {.asynchronous = true, .device = DeviceKind::kCuda};

class RuntimeOverSim : public testing::TestWithParam<std::tuple<Flavour, int>> {
 protected:
  const SimOptions& options() const { return std::get<0>(GetParam()).options; }
  DeviceKind device() const { return options().device; }
  int size() const { return std::get<1>(GetParam()); }
  float sum_of_ranks() const { return static_cast<float>(size() * (size() - 1) / 2); }
};

INSTANTIATE_TEST_SUITE_P(
    All, RuntimeOverSim,
    testing::Combine(testing::Values(Flavour{"Sync", {}}, Flavour{"Async", {.asynchronous = true}},
                                     Flavour{"Device", kDevice},
                                     Flavour{"Delayed",
                                             {.max_delay = std::chrono::microseconds(300)}},
                                     Flavour{"DelayedDevice",
                                             {.max_delay = std::chrono::microseconds(300),
                                              .asynchronous = true,
                                              .device = DeviceKind::kCuda}},
                                     Flavour{"TwoAHost", {.ranks_per_host = 2}}),
                     testing::Values(2, 3, 4, 8)),
    [](const auto& tested) {
      return std::get<0>(tested.param).name + std::to_string(std::get<1>(tested.param));
    });

TEST_P(RuntimeOverSim, SumsAndAveragesInPlace) {
  SimRanks ranks(size(), options());
  run_ranks(size(), [&](Rank rank) {
    const auto sum = shared<float>({1, static_cast<float>(rank), 4});
    const auto average = shared<double>({static_cast<double>(size() * rank)});
    const Handle first = ranks[rank].submit(allreduce("sum", sum, ReduceOp::kSum, device()));
    const Handle second =
        ranks[rank].submit(allreduce("average", average, ReduceOp::kAverage, device()));
    second.wait();
    first.wait();
    EXPECT_EQ(*sum,
              (Floats{static_cast<float>(size()), sum_of_ranks(), static_cast<float>(4 * size())}));
    EXPECT_EQ(average->front(), sum_of_ranks());
  });
}

TEST_P(RuntimeOverSim, TakesMinimumMaximumAndProduct) {
  SimRanks ranks(size(), options());
  run_ranks(size(), [&](Rank rank) {
    const auto low = shared<std::int64_t>({rank, -rank});
    const auto high = shared<std::int64_t>({rank, -rank});
    const auto product = shared<std::int64_t>({2, 1});
    ranks[rank].submit(allreduce("min", low, ReduceOp::kMin, device())).wait();
    ranks[rank].submit(allreduce("max", high, ReduceOp::kMax, device())).wait();
    ranks[rank].submit(allreduce("product", product, ReduceOp::kProduct, device())).wait();
    EXPECT_EQ(*low, (std::vector<std::int64_t>{0, 1 - size()}));
    EXPECT_EQ(*high, (std::vector<std::int64_t>{size() - 1, 0}));
    EXPECT_EQ(*product, (std::vector<std::int64_t>{1 << size(), 1}));
  });
}

TEST_P(RuntimeOverSim, BroadcastsFromEveryRoot) {
  SimRanks ranks(size(), options());
  run_ranks(size(), [&](Rank rank) {
    for (Rank root = 0; root < size(); ++root) {
      const auto values = shared<float>({static_cast<float>(rank), 10});
      ranks[rank].submit(broadcast("state", values, root, device())).wait();
      EXPECT_EQ(*values, (Floats{static_cast<float>(root), 10}));
    }
  });
}

TEST_P(RuntimeOverSim, GathersRowsThatDifferByRank) {
  SimRanks ranks(size(), options());
  run_ranks(size(), [&](Rank rank) {
    // Rank r brings r rows of two, all r; two tensors, so that they may share a batch.
    const auto rows =
        shared<float>(Floats(static_cast<std::size_t>(2 * rank), static_cast<float>(rank)));
    const auto one = shared<double>({static_cast<double>(rank)});
    const Handle ragged = ranks[rank].submit(allgather("ragged", rows, 2, device()));
    const Handle even = ranks[rank].submit(allgather("even", one, 1, device()));
    Floats expected;
    std::vector<std::int64_t> rows_of;
    std::vector<double> expected_even;
    for (Rank from = 0; from < size(); ++from) {
      expected.insert(expected.end(), static_cast<std::size_t>(2 * from), static_cast<float>(from));
      rows_of.push_back(from);
      expected_even.push_back(from);
    }
    EXPECT_EQ(gathered<float>(ragged.wait()), expected);
    EXPECT_EQ(test::rows_of(ragged.wait()), rows_of);
    EXPECT_EQ(gathered<double>(even.wait()), expected_even);
  });
}

TEST_P(RuntimeOverSim, PairsNamesHoweverTheyAreOrdered) {
  constexpr int kTensors = 40;
  SimRanks ranks(size(), options());
  run_ranks(size(), [&](Rank rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    for (int step = 0; step < 4; ++step) {
      std::vector<int> order;
      for (int i = 0; i < kTensors; ++i) order.push_back(i);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<std::shared_ptr<Floats>> values(kTensors);
      std::vector<Handle> handles;
      for (const int i : order) {
        auto& value = values[static_cast<std::size_t>(i)];
        value = shared<float>(
            Floats(static_cast<std::size_t>(1 + i % 7), static_cast<float>(i * (rank + 1))));
        const std::string name = "gradient." + std::to_string(i);
        handles.push_back(ranks[rank].submit(allreduce(name, value, ReduceOp::kSum, device())));
      }
      for (const Handle& handle : handles) handle.wait();
      const float factor = sum_of_ranks() + static_cast<float>(size());
      for (int i = 0; i < kTensors; ++i) {
        const Floats expected(static_cast<std::size_t>(1 + i % 7), static_cast<float>(i) * factor);
        EXPECT_EQ(*values[static_cast<std::size_t>(i)], expected);
      }
    }
  });
}

TEST_P(RuntimeOverSim, MixesKindsInOneStream) {
  SimRanks ranks(size(), options());
  run_ranks(size(), [&](Rank rank) {
    for (int step = 0; step < 10; ++step) {
      const auto sum = shared<float>({1});
      const auto copy = shared<float>({static_cast<float>(rank + step)});
      const auto row = shared<float>({static_cast<float>(rank)});
      std::vector<Submission> group;
      group.push_back(allreduce("sum", sum, ReduceOp::kSum, device()));
      group.push_back(allgather("row", row, 1, device()));
      group.push_back(broadcast("copy", copy, size() - 1, device()));
      const auto handles = ranks[rank].submit(std::move(group));
      handles[2].wait();
      EXPECT_EQ(copy->front(), static_cast<float>(size() - 1 + step));
      EXPECT_EQ(gathered<float>(handles[1].wait()).back(), static_cast<float>(size() - 1));
      handles[0].wait();
      EXPECT_EQ(sum->front(), static_cast<float>(size()));
    }
  });
}

TEST_P(RuntimeOverSim, TakesSubmissionsFromSeveralThreads) {
  SimRanks ranks(size(), options());
  run_ranks(size(), [&](Rank rank) {
    run_ranks(3, [&](int thread) {
      for (int i = 0; i < 10; ++i) {
        const auto value = shared<float>({static_cast<float>(thread + rank)});
        const std::string name = std::to_string(thread) + "." + std::to_string(i);
        ranks[rank].submit(allreduce(name, value, ReduceOp::kSum, device())).wait();
        EXPECT_EQ(value->front(), sum_of_ranks() + static_cast<float>(thread * size()));
      }
    });
  });
}

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

// Says that it has to be called again although nothing runs, until it was called often.
class LingeringCollective final : public test::ForwardingCollective {
 public:
  LingeringCollective(std::unique_ptr<Collective> inner, std::atomic<int>& calls)
      : ForwardingCollective(std::move(inner)), calls_(calls) {}
  std::optional<Duration> poll_interval() const override {
    if (calls_ >= kCalls) return ForwardingCollective::poll_interval();
    return std::chrono::milliseconds(5);
  }
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

TEST(Runtime, RefusesANameThatIsInFlight) {
  SimRanks ranks(2);
  const auto values = shared<float>({1});
  const Handle handle = ranks[0].submit(allreduce("x", values));
  EXPECT_THROW(ranks[0].submit(allreduce("x", shared<float>({1}))), InvalidArgumentError);
  ranks[1].submit(allreduce("x", shared<float>({1}))).wait();
  handle.wait();
  EXPECT_EQ(values->front(), 2);
  const Handle again = ranks[0].submit(allreduce("x", values));
  ranks[1].submit(allreduce("x", shared<float>({5}))).wait();
  again.wait();
  EXPECT_EQ(values->front(), 7);
}

TEST(Runtime, RefusesADeviceWithoutABackend) {
  SimRanks ranks(2);
  EXPECT_THROW(
      ranks[0].submit(allreduce("x", shared<float>({1}), ReduceOp::kSum, DeviceKind::kCuda)),
      UnsupportedError);
}

// The same error on every rank, and the job goes on.
TEST(Runtime, AMismatchReachesEveryRankAndTheJobGoesOn) {
  SimRanks ranks(3);
  std::mutex mutex;
  std::vector<std::string> errors;
  run_ranks(3, [&](Rank rank) {
    for (int round = 0; round < 3; ++round) {
      const auto wrong = shared<float>(Floats(rank == 2 ? 4 : 3));
      const Handle handle = ranks[rank].submit(allreduce("w", wrong));
      try {
        handle.wait();
        ADD_FAILURE() << "rank " << rank << " saw no mismatch";
      } catch (const MismatchError& error) {
        const std::lock_guard lock(mutex);
        errors.emplace_back(error.what());
      }
      const auto right = shared<float>({1});
      ranks[rank].submit(allreduce("right", right)).wait();
      EXPECT_EQ(right->front(), 3);
    }
  });
  ASSERT_EQ(errors.size(), 9u);
  for (const std::string& error : errors) EXPECT_EQ(error, errors.front());
  for (const char* part : {"w", "rank 0", "rank 2", "[3]", "[4]"}) {
    EXPECT_NE(errors.front().find(part), std::string::npos) << errors.front();
  }
}

TEST(Runtime, KeepsMemoryAliveUntilTheHandleIsDone) {
  SimRanks ranks(2);
  auto values = shared<float>({1});
  const std::weak_ptr<Floats> alive = values;
  const Handle handle = ranks[0].submit(allreduce("x", values));
  values.reset();
  EXPECT_FALSE(alive.expired());
  ranks[1].submit(allreduce("x", shared<float>({2}))).wait();
  handle.wait();
  EXPECT_TRUE(alive.expired());
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
}  // namespace hvd
