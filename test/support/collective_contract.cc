#include "test/support/collective_contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "test/support/collective_cases.h"
#include "test/support/repeat.h"

namespace hvd::engine::test {
namespace {

// An exception on a rank's thread would end the process instead of the test.
CollectiveCase guarded(CollectiveCase unguarded) {
  auto run = [inner = std::move(unguarded.run)](Collective& collective, Rank rank, int size) {
    SCOPED_TRACE("rank " + std::to_string(rank) + " of " + std::to_string(size));
    try {
      inner(collective, rank, size);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  };
  return {std::move(unguarded.name), std::move(run)};
}

// Rank size-1 goes once the arena is made: what the others started can only be aborted.
void expect_abort_ends_waiting_operations(Collective& collective, Rank rank, int size) {
  ArenaMemory arena;
  finish(*collective.make_arena(1, 4096, arena), collective);
  if (!arena.shared) arena.mine = collective.allocate(4096);
  if (rank == size - 1) return;
  std::vector<Rank> everyone;
  for (Rank each = 0; each < size; ++each) everyone.push_back(each);
  const auto subset = collective.subset(1, everyone);
  Batch batches[2];
  for (Batch& batch : batches) batch.add(TypedArray(DType::kF32, 100));
  TypedArray received(DType::kF32, 100);
  Operations operations;
  operations.push_back(collective.all_reduce(batches[0].slices(), {}));
  operations.push_back(subset->all_reduce(batches[1].slices(), {}));
  operations.push_back(collective.receive(received.view(), size - 1, 0));
  Slice placed{{arena.mine.data, 100, DType::kF32, {}}, {arena.mine.data, 100, DType::kF32, {}}};
  if (arena.shared) placed.place = SlicePlace{1, 0};
  operations.push_back(collective.all_reduce({&placed, 1}, {}));
  for (const auto& operation : operations) EXPECT_FALSE(operation->advance());
  collective.abort();
  for (const auto& operation : operations) {
    EXPECT_THROW(finish(*operation, collective), Error) << "rank " << rank;
  }
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

void finish_in_order(Operations& operations, const std::vector<std::size_t>& order,
                     Collective& collective) {
  const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
  std::vector<bool> finished(operations.size());
  while (std::count(finished.begin(), finished.end(), false) != 0) {
    if (Clock::now() > deadline) throw std::runtime_error("operations did not finish in 30 s");
    for (const std::size_t i : order) {
      if (!finished[i]) finished[i] = operations[i]->advance();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  collective.fence().wait();
}

void finish_all(Operations& operations, Collective& collective) {
  std::vector<std::size_t> order(operations.size());
  std::iota(order.begin(), order.end(), 0);
  finish_in_order(operations, order, collective);
}

void run_all_reduce(Collective& collective, const Batch& batch, const Reduction& reduction) {
  const auto operation = collective.all_reduce(batch.slices(), reduction);
  finish(*operation, collective);
}

TypedArray gathered(Collective& collective, const TypedArray& mine, int size) {
  TypedArray all(mine.dtype(), mine.numel() * size);
  const GatherSlice slice = {
      mine.data(), all.data(),
      std::vector<std::size_t>(static_cast<std::size_t>(size), mine.bytes())};
  const auto operation = collective.all_gather({&slice, 1});
  finish(*operation, collective);
  return all;
}

void Batch::add_residual(std::size_t i) {
  const auto numel = static_cast<std::size_t>(inputs_[i].numel());
  slices_[i].residual = residuals_.emplace_back(numel).data();
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

TypedArray make_array(DType dtype, std::int64_t numel, const Value& value) {
  return make_periodic(dtype, numel, std::max<std::int64_t>(numel, 1), value);
}

TypedArray make_periodic(DType dtype, std::int64_t numel, std::int64_t period, const Value& value) {
  TypedArray array(dtype, numel);
  for (std::int64_t i = 0; i < std::min(numel, period); ++i) {
    if (is_complex(dtype)) {
      array.set_complex(i, value(i));
    } else {
      array.set(i, value(i).real());
    }
  }
  repeat_prefix({static_cast<std::byte*>(array.data()), array.bytes()},
                static_cast<std::size_t>(period) * size_of(dtype));
  return array;
}

void expect_same(const TypedArray& actual, const TypedArray& expected, const std::string& what) {
  if (actual == expected) return;
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  ASSERT_EQ(actual.numel(), expected.numel()) << what;
  for (std::int64_t i = 0; i < actual.numel(); ++i) {
    ASSERT_EQ(actual.complex_at(i), expected.complex_at(i))
        << what << ", " << name_of(actual.dtype()) << ", element " << i;
  }
  FAIL() << what << ": equal numbers of different bits";
}

std::vector<CollectiveCase> collective_contract() {
  std::vector<CollectiveCase> cases;
  add_all_reduce_cases(cases);
  add_arena_cases(cases);
  add_rounding_cases(cases);
  add_adasum_cases(cases);
  add_wire_cases(cases);
  add_scatter_cases(cases);
  add_movement_cases(cases);
  add_all_to_all_cases(cases);
  add_transfer_cases(cases);
  add_subset_cases(cases);
  add_refusal_cases(cases);
  add_operation_cases(cases);
  for (CollectiveCase& each : cases) each = guarded(std::move(each));
  return cases;
}

CollectiveCase collective_abort_contract() {
  return guarded({"AbortEndsWaitingOperations", expect_abort_ends_waiting_operations});
}

}  // namespace hvd::engine::test
