#include "test/support/collective_contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "test/support/collective_cases.h"
#include "test/support/repeat.h"

namespace hvd::test {
namespace {

// An exception on a rank's thread would end the process instead of the test.
CollectiveCase guarded(CollectiveCase unguarded) {
  auto run = [inner = std::move(unguarded.run)](Collective& collective, Rank rank, int size) {
    try {
      inner(collective, rank, size);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << " of " << size << ": " << error.what();
    }
  };
  return {std::move(unguarded.name), std::move(run)};
}

void expect_abort_ends_a_waiting_operation(Collective& collective, Rank rank, int size) {
  if (rank == size - 1) return;
  Batch batch;
  batch.add(make_array(DType::kF32, 100, [](std::int64_t) { return 1.0; }));
  const auto operation = collective.all_reduce(batch.slices(), ReduceOp::kSum, 1.0);
  EXPECT_FALSE(operation->advance()) << "rank " << size - 1 << " has not started";
  collective.abort();
  EXPECT_THROW(finish(*operation, collective), Error) << "rank " << rank;
}

}  // namespace

void finish(Operation& operation, Collective& collective) {
  const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
  for (int polls = 0; !operation.advance(); ++polls) {
    if (Clock::now() > deadline) throw std::runtime_error("an operation did not finish in 30 s");
    if (polls < 20) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  collective.fence().wait();
}

void Batch::add(const TypedArray& input, bool in_place) {
  TypedArray& from = inputs_.emplace_back(input);
  TypedArray& to = outputs_.emplace_back(input.dtype(), in_place ? 0 : input.numel());
  in_place_.push_back(in_place);
  slices_.push_back({from.view(), in_place ? from.view() : to.view()});
}

void Batch::add_nothing(DType dtype) {
  inputs_.emplace_back(dtype, 0);
  outputs_.emplace_back(dtype, 0);
  in_place_.push_back(false);
  const TensorView nothing = {nullptr, 0, dtype, {}};
  slices_.push_back({nothing, nothing});
}

TypedArray make_array(DType dtype, std::int64_t numel,
                      const std::function<double(std::int64_t)>& value) {
  TypedArray array(dtype, numel);
  for (std::int64_t i = 0; i < numel; ++i) array.set(i, value(i));
  return array;
}

TypedArray make_periodic(DType dtype, std::int64_t numel, std::int64_t period,
                         const std::function<double(std::int64_t)>& value) {
  TypedArray array(dtype, numel);
  for (std::int64_t i = 0; i < std::min(numel, period); ++i) array.set(i, value(i));
  repeat_prefix({static_cast<std::byte*>(array.data()), array.bytes()},
                static_cast<std::size_t>(period) * size_of(dtype));
  return array;
}

void expect_same(const TypedArray& actual, const TypedArray& expected, const std::string& what) {
  if (actual == expected) return;
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  ASSERT_EQ(actual.numel(), expected.numel()) << what;
  for (std::int64_t i = 0; i < actual.numel(); ++i) {
    ASSERT_EQ(actual.at(i), expected.at(i))
        << what << ", " << name_of(actual.dtype()) << ", element " << i;
  }
  FAIL() << what << ": equal numbers of different bits";
}

std::vector<CollectiveCase> collective_contract() {
  std::vector<CollectiveCase> cases;
  add_all_reduce_cases(cases);
  add_movement_cases(cases);
  add_operation_cases(cases);
  for (CollectiveCase& each : cases) each = guarded(std::move(each));
  return cases;
}

CollectiveCase collective_abort_contract() {
  return guarded({"AbortEndsAWaitingOperation", expect_abort_ends_a_waiting_operation});
}

}  // namespace hvd::test
