// Ranks that come late.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <string>

#include "core/base/status.h"
#include "test/support/runtime_cases.h"

namespace hvd::engine::test {
namespace {

using std::chrono::milliseconds;

void warn_soon(Config& config, Rank) {
  config.stall_warning = milliseconds(50);
  config.stall_limit = Duration::zero();
}

// What rank 0 is told of a tensor for which the last rank is late, once it has `part` in it.
std::string report_of_a_late_rank(const RuntimePlace& at, const std::string& part) {
  const Rank late = at.size - 1;
  if (at.rank == late) {  // comes when rank 0 was told
    at.runtime.notifier().set_location_callback([] { return "train.py:12"; });
    at.runtime.submit(receive(shared<float>({0}), 0, 1, at.device)).wait();
  }
  std::mutex mutex;
  std::string reports;
  std::promise<void> told;
  bool is_told = false;
  if (at.rank == 0) {
    at.runtime.notifier().on_stall([&](const std::string& text) {
      const std::lock_guard lock(mutex);
      reports += text;
      if (is_told || reports.find(part) == std::string::npos) return;
      is_told = true;
      told.set_value();
    });
  }
  const auto values = shared<float>({1});
  const Handle handle = at.runtime.submit(allreduce("late", values, ReduceOp::kSum, at.device));
  if (at.rank == 0) {
    told.get_future().wait();
    at.runtime.submit(send(shared<float>({1}), late, 1, at.device)).wait();
  }
  handle.wait();
  EXPECT_EQ(values->front(), static_cast<float>(at.size));
  at.runtime.notifier().on_stall({});
  at.runtime.notifier().set_location_callback({});
  meet(at, "after the stall");  // no report uses what goes here
  const std::lock_guard lock(mutex);
  return reports;
}

void is_reported_and_forgotten(const RuntimePlace& at) {
  const std::string reports = report_of_a_late_rank(at, "late");
  if (at.rank == 0) {
    EXPECT_NE(reports.find("late"), std::string::npos) << reports;
  }
}

void is_reported_with_the_place(const RuntimePlace& at) {
  report_of_a_late_rank(at, "train.py:12");  // hangs if nobody is ever told
}

}  // namespace

void add_runtime_stall_cases(RuntimeCases& cases) {
  cases.push_back(
      {"AStallIsReportedAndForgottenWhenTheRankComes", is_reported_and_forgotten, warn_soon});
  cases.push_back(
      {"AStallIsReportedWithThePlaceWhereTheMissingRankIs", is_reported_with_the_place, warn_soon});
}

}  // namespace hvd::engine::test
