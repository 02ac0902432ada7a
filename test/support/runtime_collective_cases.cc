// Collectives through a Runtime: names, kinds and errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "test/support/run_ranks.h"
#include "test/support/runtime_cases.h"
#include "test/support/typed_array.h"

namespace hvd::engine::test {
namespace {

using Floats = std::vector<float>;

float sum_of_ranks(const RuntimePlace& at) {
  return static_cast<float>(at.size * (at.size - 1) / 2);
}

void sums_and_averages(const RuntimePlace& at) {
  const auto sum = shared<float>({1, static_cast<float>(at.rank), 4});
  const auto average = shared<double>({static_cast<double>(at.size * at.rank)});
  const Handle first = at.runtime.submit(allreduce("sum", sum, ReduceOp::kSum, at.device));
  const Handle second =
      at.runtime.submit(allreduce("average", average, ReduceOp::kAverage, at.device));
  second.wait();
  first.wait();
  EXPECT_EQ(*sum, (Floats{static_cast<float>(at.size), sum_of_ranks(at),
                          static_cast<float>(4 * at.size)}));
  EXPECT_EQ(average->front(), sum_of_ranks(at));
}

// The same names, again and again: from the second time on what is small is reduced by rank 0.
void reduces_alone_what_it_reduced_before(const RuntimePlace& at) {
  for (int step = 0; step < 4; ++step) {
    for (const std::size_t numel : {1u, 7u, 200u, 5000u}) {
      const auto mine = static_cast<float>(at.rank + step);
      const auto sum = shared<float>(Floats(numel, mine));
      const auto average = shared<double>(std::vector<double>(numel, at.size * (at.rank + step)));
      const auto high = shared<std::int64_t>(std::vector<std::int64_t>(numel, at.rank - step));
      const std::string name = std::to_string(numel);
      Submission scaled = allreduce("sum of " + name, sum, ReduceOp::kSum, at.device);
      scaled.request.prescale = 2;
      scaled.request.postscale = 0.5;
      at.runtime.submit(std::move(scaled)).wait();
      at.runtime.submit(allreduce("average of " + name, average, ReduceOp::kAverage, at.device))
          .wait();
      at.runtime.submit(allreduce("most of " + name, high, ReduceOp::kMax, at.device)).wait();
      const float of_all = sum_of_ranks(at) + static_cast<float>(at.size * step);
      EXPECT_EQ(*sum, Floats(numel, of_all));
      EXPECT_EQ(*average, std::vector<double>(numel, of_all));
      EXPECT_EQ(*high, std::vector<std::int64_t>(numel, at.size - 1 - step));
    }
  }
}

// A group, out of place, whose inputs stay as they are.
void reduces_a_group_it_reduced_before(const RuntimePlace& at) {
  for (int step = 0; step < 4; ++step) {
    const auto one = shared<float>({static_cast<float>(at.rank), static_cast<float>(step)});
    const auto other = shared<float>(Floats(3, static_cast<float>(at.rank + step)));
    const auto reduced_one = shared<float>(Floats(2));
    const auto reduced_other = shared<float>(Floats(3));
    Submission group = grouped_allreduce<float>("group", {one, other}, ReduceOp::kSum, at.device);
    group.parts[0].output = lease(reduced_one, at.device);
    group.parts[1].output = lease(reduced_other, at.device);
    at.runtime.submit(std::move(group)).wait();
    const float sum = sum_of_ranks(at);
    const auto steps = static_cast<float>(at.size * step);
    EXPECT_EQ(*reduced_one, (Floats{sum, steps}));
    EXPECT_EQ(*reduced_other, Floats(3, sum + steps));
    EXPECT_EQ(*one, (Floats{static_cast<float>(at.rank), static_cast<float>(step)}));
  }
}

void takes_extremes_and_products(const RuntimePlace& at) {
  const auto low = shared<std::int64_t>({at.rank, -at.rank});
  const auto high = shared<std::int64_t>({at.rank, -at.rank});
  const auto product = shared<std::int64_t>({2, 1});
  at.runtime.submit(allreduce("min", low, ReduceOp::kMin, at.device)).wait();
  at.runtime.submit(allreduce("max", high, ReduceOp::kMax, at.device)).wait();
  at.runtime.submit(allreduce("product", product, ReduceOp::kProduct, at.device)).wait();
  EXPECT_EQ(*low, (std::vector<std::int64_t>{0, 1 - at.size}));
  EXPECT_EQ(*high, (std::vector<std::int64_t>{at.size - 1, 0}));
  EXPECT_EQ(*product, (std::vector<std::int64_t>{1 << at.size, 1}));
}

void broadcasts_from_every_root(const RuntimePlace& at) {
  for (Rank root = 0; root < at.size; ++root) {
    const auto values = shared<float>({static_cast<float>(at.rank), 10});
    at.runtime.submit(broadcast("state", values, root, at.device)).wait();
    EXPECT_EQ(*values, (Floats{static_cast<float>(root), 10}));
  }
}

void gathers_rows_that_differ(const RuntimePlace& at) {
  // Rank r brings r rows of two, all r; two tensors, so that they may share a batch.
  const auto rows =
      shared<float>(Floats(static_cast<std::size_t>(2 * at.rank), static_cast<float>(at.rank)));
  const auto one = shared<double>({static_cast<double>(at.rank)});
  const Handle ragged = at.runtime.submit(allgather("ragged", rows, 2, at.device));
  const Handle even = at.runtime.submit(allgather("even", one, 1, at.device));
  Floats expected;
  std::vector<std::int64_t> rows_of;
  std::vector<double> expected_even;
  for (Rank from = 0; from < at.size; ++from) {
    expected.insert(expected.end(), static_cast<std::size_t>(2 * from), static_cast<float>(from));
    rows_of.push_back(from);
    expected_even.push_back(from);
  }
  EXPECT_EQ(gathered<float>(ragged.wait()), expected);
  EXPECT_EQ(test::rows_of(ragged.wait()), rows_of);
  EXPECT_EQ(gathered<double>(even.wait()), expected_even);
}

void pairs_names(const RuntimePlace& at) {
  constexpr int kTensors = 40;
  std::mt19937 random(static_cast<unsigned>(at.rank));
  for (int step = 0; step < 4; ++step) {
    std::vector<int> order;
    for (int i = 0; i < kTensors; ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::shared_ptr<Floats>> values(kTensors);
    std::vector<Handle> handles;
    for (const int i : order) {
      auto& value = values[static_cast<std::size_t>(i)];
      value = shared<float>(
          Floats(static_cast<std::size_t>(1 + i % 7), static_cast<float>(i * (at.rank + 1))));
      const std::string name = "gradient." + std::to_string(i);
      handles.push_back(at.runtime.submit(allreduce(name, value, ReduceOp::kSum, at.device)));
    }
    for (const Handle& handle : handles) handle.wait();
    const float factor = sum_of_ranks(at) + static_cast<float>(at.size);
    for (int i = 0; i < kTensors; ++i) {
      const Floats expected(static_cast<std::size_t>(1 + i % 7), static_cast<float>(i) * factor);
      EXPECT_EQ(*values[static_cast<std::size_t>(i)], expected);
    }
  }
}

void mixes_kinds(const RuntimePlace& at) {
  for (int step = 0; step < 10; ++step) {
    const auto sum = shared<float>({1});
    const auto copy = shared<float>({static_cast<float>(at.rank + step)});
    const auto row = shared<float>({static_cast<float>(at.rank)});
    std::vector<Submission> group;
    group.push_back(allreduce("sum", sum, ReduceOp::kSum, at.device));
    group.push_back(allgather("row", row, 1, at.device));
    group.push_back(broadcast("copy", copy, at.size - 1, at.device));
    const auto handles = at.runtime.submit(std::move(group));
    handles[2].wait();
    EXPECT_EQ(copy->front(), static_cast<float>(at.size - 1 + step));
    EXPECT_EQ(gathered<float>(handles[1].wait()).back(), static_cast<float>(at.size - 1));
    handles[0].wait();
    EXPECT_EQ(sum->front(), static_cast<float>(at.size));
  }
}

void takes_submissions_from_threads(const RuntimePlace& at) {
  run_ranks(3, [&](int thread) {
    for (int i = 0; i < 10; ++i) {
      const auto value = shared<float>({static_cast<float>(thread + at.rank)});
      const std::string name = std::to_string(thread) + "." + std::to_string(i);
      at.runtime.submit(allreduce(name, value, ReduceOp::kSum, at.device)).wait();
      EXPECT_EQ(value->front(), sum_of_ranks(at) + static_cast<float>(thread * at.size));
    }
  });
}

void refuses_a_name_in_flight(const RuntimePlace& at) {
  const auto values = shared<float>({1});
  const auto sum = [&](const Values<float>& of) {
    return at.runtime.submit(allreduce("x", of, ReduceOp::kSum, at.device));
  };
  if (at.rank == 0) {
    const Handle handle = sum(values);
    EXPECT_THROW(sum(shared<float>({1})), InvalidArgumentError);
    meet(at, "after the refusal");
    handle.wait();
  } else {
    meet(at, "after the refusal");
    sum(values).wait();
  }
  EXPECT_EQ(values->front(), static_cast<float>(at.size));
  sum(values).wait();
  EXPECT_EQ(values->front(), static_cast<float>(at.size * at.size));
}

// The same error on every rank, and the job goes on.
void a_mismatch_reaches_every_rank(const RuntimePlace& at) {
  const Rank last = at.size - 1;
  for (int round = 0; round < 3; ++round) {
    const auto wrong = shared<float>(Floats(at.rank == last ? 4 : 3));
    const Handle handle = at.runtime.submit(allreduce("w", wrong, ReduceOp::kSum, at.device));
    try {
      handle.wait();
      ADD_FAILURE() << "rank " << at.rank << " saw no mismatch";
    } catch (const MismatchError& error) {
      const std::string text = error.what();
      for (const std::string& part :
           {std::string("w"), std::string("rank 0"), "rank " + std::to_string(last),
            std::string("[3]"), std::string("[4]")}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
      }
    }
    // Under the same name too, and where a rank submits it beside another one.
    const auto right = shared<float>(Floats(3, 1));
    const auto other = shared<double>({1});
    const bool beside = at.rank == last;
    Handle first, second;
    if (beside) first = at.runtime.submit(allreduce("other", other, ReduceOp::kSum, at.device));
    second = at.runtime.submit(allreduce("w", right, ReduceOp::kSum, at.device));
    if (!beside) first = at.runtime.submit(allreduce("other", other, ReduceOp::kSum, at.device));
    first.wait();
    second.wait();
    EXPECT_EQ(*right, Floats(3, static_cast<float>(at.size)));
    EXPECT_EQ(other->front(), at.size);
  }
}

void keeps_memory_alive(const RuntimePlace& at) {
  auto values = shared<float>({1});
  const std::weak_ptr<Floats> alive = values;
  if (at.rank == 0) {
    const Handle handle = at.runtime.submit(allreduce("x", values, ReduceOp::kSum, at.device));
    values.reset();
    EXPECT_FALSE(alive.expired());
    meet(at, "before the others");
    handle.wait();
    EXPECT_TRUE(alive.expired());
  } else {
    meet(at, "before the others");
    at.runtime.submit(allreduce("x", values, ReduceOp::kSum, at.device)).wait();
  }
}

}  // namespace

void add_runtime_collective_cases(RuntimeCases& cases) {
  cases.push_back({"SumsAndAveragesInPlace", sums_and_averages});
  cases.push_back({"ReducesAloneWhatItReducedBefore", reduces_alone_what_it_reduced_before});
  cases.push_back({"ReducesAGroupItReducedBefore", reduces_a_group_it_reduced_before});
  cases.push_back({"TakesMinimumMaximumAndProduct", takes_extremes_and_products});
  cases.push_back({"BroadcastsFromEveryRoot", broadcasts_from_every_root});
  cases.push_back({"GathersRowsThatDifferByRank", gathers_rows_that_differ});
  cases.push_back({"PairsNamesHoweverTheyAreOrdered", pairs_names});
  cases.push_back({"MixesKindsInOneStream", mixes_kinds});
  cases.push_back({"TakesSubmissionsFromSeveralThreads", takes_submissions_from_threads});
  cases.push_back({"RefusesANameThatIsInFlight", refuses_a_name_in_flight});
  cases.push_back({"AMismatchReachesEveryRankAndTheJobGoesOn", a_mismatch_reaches_every_rank});
  cases.push_back({"KeepsMemoryAliveUntilTheHandleIsDone", keeps_memory_alive});
}

}  // namespace hvd::engine::test
