// Sends and receives that wait for too long: they fail alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "test/support/message_of.h"
#include "test/support/runtime_cases.h"

namespace hvd::engine::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Floats = std::vector<float>;

constexpr int kTag = 42;

constexpr WaitLimits kShort = {.warning = milliseconds(30), .limit = milliseconds(120)};

void expect_stalled(const Handle& handle, const std::string& named) {
  EXPECT_THAT(message_of<StalledError>([&] { handle.wait(); }), testing::HasSubstr(named));
}

bool ends_well(const RuntimePlace& at, const WaitLimits& limits, const PointToPoint& transfer) {
  try {
    at.runtime.submit(within(limits, transfer)).wait();
    return true;
  } catch (const StalledError&) {
    return false;  // this machine was slower than the limit
  }
}

// Of a pair whose transfers were given up: the next ones are served, and get nothing stale.
void expect_the_pair_goes_on(const RuntimePlace& at, Rank from, Rank to, std::size_t numel) {
  bool served = false;
  for (int attempt = 1; attempt <= 3000 && !served; ++attempt) {
    const auto value = static_cast<float>(1000 + attempt);
    const auto values = shared(Floats(numel, at.rank == from ? value : -1));
    bool well = true;
    if (at.rank == from) well = ends_well(at, kShort, send(values, to, kTag, at.device));
    if (at.rank == to) {
      well = ends_well(at, kShort, receive(values, from, kTag, at.device));
      if (well) {
        EXPECT_EQ(*values, Floats(numel, value));
      }
    }
    served = all_agree(at, well);
  }
  EXPECT_TRUE(served) << "no transfer is served any more";
}

void expect_the_job_goes_on(const RuntimePlace& at) {
  const auto sum = shared<float>({1});
  at.runtime.submit(allreduce("x", sum, ReduceOp::kSum, at.device)).wait();
  EXPECT_EQ(sum->front(), static_cast<float>(at.size));
  expect_the_pair_goes_on(at, 0, 1, 3);
  expect_the_pair_goes_on(at, 1, 0, 3);
  expect_the_pair_goes_on(at, 0, 1, 500'000);
  EXPECT_TRUE(at.runtime.stopped().ok());
}

void a_receive_fails_alone(const RuntimePlace& at) {
  if (at.rank == 0) {
    const Handle lonely =
        at.runtime.submit(within(kShort, receive(shared<float>({0}), 1, kTag, at.device)));
    expect_stalled(lonely, "receive from rank 1 with tag 42 (1 of float32, 4 bytes)");
  }
  meet(at, "after the limit");
  expect_the_job_goes_on(at);
}

void a_send_fails_alone(const RuntimePlace& at) {
  if (at.rank == 0) {
    const Handle lonely =
        at.runtime.submit(within(kShort, send(shared<float>({9, 9, 9}), 1, kTag, at.device)));
    expect_stalled(lonely, "send to rank 1 with tag 42 (3 of float32, 12 bytes)");
  }
  meet(at, "after the limit");
  expect_the_job_goes_on(at);
}

void a_send_to_rank_0_fails_alone(const RuntimePlace& at) {
  if (at.rank == 1) {
    const Handle lonely =
        at.runtime.submit(within(kShort, send(shared(Floats(300'000, 9)), 0, kTag, at.device)));
    expect_stalled(lonely, "send to rank 0 with tag 42 (300000 of float32, 1200000 bytes)");
  }
  meet(at, "after the limit");
  expect_the_job_goes_on(at);
}

void a_long_wait_is_reported(const RuntimePlace& at) {
  if (at.rank == 0) {
    std::promise<std::string> told;
    std::atomic<int> reports = 0;
    at.runtime.notifier().on_stall([&](const std::string& text) {
      if (++reports == 1) told.set_value(text);
    });
    const Handle lonely =
        at.runtime.submit(within(kShort, receive(shared<float>({0}), 1, kTag, at.device)));
    const std::string report = told.get_future().get();
    EXPECT_NE(report.find("receive from rank 1 with tag 42"), std::string::npos) << report;
    EXPECT_THROW(lonely.wait(), StalledError);
    EXPECT_EQ(reports, 1);
    at.runtime.notifier().on_stall({});
  }
  meet(at, "after the report");
}

// Limits of both ends that run out at any stage: before the ends have met, while they meet and half
// way. What arrives is whole, and nothing arrives twice or out of order.
void give_up_at_any_moment(const RuntimePlace& at, std::size_t numel, int rounds) {
  const WaitLimits tiny = {.limit = microseconds(at.rank == 0 ? 1500 : 2500)};
  std::mt19937 random(static_cast<unsigned>(at.rank) + 7);
  float last = 0;
  for (int round = 1; round <= rounds && at.rank < 2; ++round) {
    std::this_thread::sleep_for(microseconds(random() % 2000));
    const auto value = static_cast<float>(round);
    if (at.rank == 0) {
      ends_well(at, tiny, send(shared(Floats(numel, value)), 1, kTag, at.device));
      continue;
    }
    const auto got = shared(Floats(numel, 0));
    if (!ends_well(at, tiny, receive(got, 0, kTag, at.device))) continue;
    EXPECT_EQ(*got, Floats(numel, got->front())) << "of several sends";
    EXPECT_GT(got->front(), last) << "a stale one";
    last = got->front();
  }
  meet(at, "after the rounds");
  expect_the_pair_goes_on(at, 0, 1, 3);
  expect_the_pair_goes_on(at, 1, 0, 3);
  EXPECT_TRUE(at.runtime.stopped().ok());
}

}  // namespace

void add_runtime_transfer_limit_cases(RuntimeCases& cases) {
  cases.push_back({"AReceiveThatWaitsTooLongFailsAlone", a_receive_fails_alone});
  cases.push_back({"ASendThatWaitsTooLongFailsAlone", a_send_fails_alone});
  cases.push_back({"ASendToRank0ThatWaitsTooLongFailsAlone", a_send_to_rank_0_fails_alone});
  cases.push_back({"ATransferThatWaitsLongIsReportedOnce", a_long_wait_is_reported});
  cases.push_back({"TransfersAreGivenUpAtAnyMoment",
                   [](const RuntimePlace& at) { give_up_at_any_moment(at, 5, 300); }});
  cases.push_back({"LongTransfersAreGivenUpAtAnyMoment",
                   [](const RuntimePlace& at) { give_up_at_any_moment(at, 400'000, 100); }});
}

}  // namespace hvd::engine::test
