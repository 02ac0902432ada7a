#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "core/base/clock.h"
#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

TypedArray filled(std::int64_t numel, double value) {
  return make_periodic(DType::kF32, numel, 1, [value](std::int64_t) { return value; });
}

// The sum of (number + rank) over ranks.
double sum_of(double number, int size) {
  return number * size + size * (size - 1) / 2.0;
}

// Rank 0 polls them as they were started, rank 1 backwards, the others from the middle.
std::vector<std::size_t> order_of(Rank rank, std::size_t count) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) order.push_back(i);
  if (rank == 1) std::reverse(order.begin(), order.end());
  const auto shift = rank > 1 ? static_cast<std::ptrdiff_t>(count / 2) : 0;
  std::rotate(order.begin(), order.begin() + shift, order.end());
  return order;
}

void serves_several_in_flight(Collective& collective, Rank rank, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  Batch sums[3];
  for (int i = 0; i < 3; ++i) sums[i].add(filled(100 + 40'000 * i, 10 * i + rank), i == 1);
  Batch copies;
  copies.add(filled(777, rank));
  const std::int64_t mine = rank * 3;
  std::vector<std::int64_t> all(ranks);
  TypedArray whole = filled(20 * size, rank);
  TypedArray part(DType::kF32, 20);
  const ScatterSlice scatter = {whole.view(), part.view(), std::vector<std::int64_t>(ranks, 20)};
  TypedArray parcels = filled(size, rank);
  TypedArray arrived(DType::kF32, size);
  const std::vector<std::size_t> each(ranks, sizeof(float));
  const ExchangeSlice parcel = {parcels.data(), arrived.data(), each, each};
  TypedArray received(DType::kF32, 90'000);
  TypedArray sent = filled(90'000, rank);
  Operations operations;
  operations.push_back(collective.receive(received.view(), (rank + 1) % size, 0));
  operations.push_back(collective.all_reduce(sums[0].slices(), {}));
  operations.push_back(collective.broadcast(copies.slices(), size - 1));
  operations.push_back(collective.all_reduce(sums[1].slices(), {}));
  operations.push_back(collective.exchange({&mine, 1}, all));
  operations.push_back(collective.reduce_scatter({&scatter, 1}, {}));
  operations.push_back(collective.all_to_all({&parcel, 1}));
  operations.push_back(collective.send(sent.view(), (rank + size - 1) % size, 0));
  operations.push_back(collective.all_reduce(sums[2].slices(), {}));
  finish_in_order(operations, order_of(rank, operations.size()), collective);
  for (int i = 0; i < 3; ++i) {
    expect_same(sums[i].output(0), filled(100 + 40'000 * i, sum_of(10 * i, size)),
                "sum " + std::to_string(i));
  }
  expect_same(copies.output(0), filled(777, size - 1), "broadcast");
  expect_same(part, filled(20, sum_of(0, size)), "scattered");
  expect_same(received, filled(90'000, (rank + 1) % size), "received");
  for (std::size_t from = 0; from < ranks; ++from) {
    EXPECT_EQ(all[from], static_cast<std::int64_t>(3 * from));
    EXPECT_EQ(arrived.at(static_cast<std::int64_t>(from)), static_cast<double>(from));
  }
}

void keeps_apart_many_in_a_row(Collective& collective, Rank rank, int size) {
  for (int round = 0; round < 200; ++round) {
    Batch batch;
    batch.add(filled(1 + round * 13 % 101, round + rank), round % 2 == 0);
    const auto operation = collective.all_reduce(batch.slices(), {});
    finish(*operation, collective);
    expect_same(batch.output(0), filled(1 + round * 13 % 101, sum_of(round, size)),
                "round " + std::to_string(round));
  }
}

// A finished operation reads and writes nothing any more, however late the other ranks are.
void leaves_memory_alone_once_finished(Collective& collective, Rank rank, int size) {
  for (int round = 0; round < 2 * size; ++round) {
    Batch batch;
    batch.add(filled(50'000, round + rank));
    const auto operation = collective.all_reduce(batch.slices(), {});
    if (round % size == rank) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    finish(*operation, collective);
    std::memset(batch.input(0).data(), 0x7f, batch.input(0).bytes());
    expect_same(batch.output(0), filled(50'000, sum_of(round, size)),
                "round " + std::to_string(round));
  }
}

void waits_for_a_late_rank(Collective& collective, Rank rank, int size) {
  for (Rank late = 0; late < size; ++late) {
    if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Batch batch;
    batch.add(filled(300, late + rank));
    const auto operation = collective.all_reduce(batch.slices(), {});
    finish(*operation, collective);
    expect_same(batch.output(0), filled(300, sum_of(late, size)), "result");
  }
}

void allocates_memory_to_communicate(Collective& collective, Rank rank, int size) {
  constexpr std::size_t kNumel = 5'000;
  std::shared_ptr<const void> owner;
  float* data = nullptr;
  {
    const Buffer buffer = collective.allocate(kNumel * sizeof(float));
    ASSERT_NE(buffer.data, nullptr);
    ASSERT_GE(buffer.bytes, kNumel * sizeof(float));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data) % 64, 0u);
    data = static_cast<float*>(buffer.data);
    owner = buffer.owner;  // keeps the memory alive without the buffer
  }
  const Buffer other = collective.allocate(kNumel * sizeof(float));
  std::memset(other.data, 0x7f, other.bytes);
  std::fill(data, data + kNumel, static_cast<float>(rank));
  const TensorView view = {data, kNumel, DType::kF32, {}};
  const Slice slice = {view, view};
  const auto operation = collective.all_reduce({&slice, 1}, {});
  finish(*operation, collective);
  for (std::size_t i = 0; i < kNumel; ++i) {
    ASSERT_EQ(data[i], static_cast<float>(sum_of(0, size))) << "element " << i;
  }
}

void reaches_its_fence(Collective& collective, Rank rank, int size) {
  collective.after(Fence());
  Batch batch;
  batch.add(filled(2'000, rank));
  const auto operation = collective.all_reduce(batch.slices(), {});
  finish(*operation, collective);
  const Fence fence = collective.fence();
  fence.wait();
  EXPECT_TRUE(fence.reached());
  expect_same(batch.output(0), filled(2'000, sum_of(0, size)), "result");
}

}  // namespace

void add_operation_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"SeveralInFlightPolledInAnyOrder", serves_several_in_flight});
  cases.push_back({"ManyInARowStayApart", keeps_apart_many_in_a_row});
  cases.push_back({"FinishedMeansMemoryIsLeftAlone", leaves_memory_alone_once_finished});
  cases.push_back({"ALateRankIsWaitedFor", waits_for_a_late_rank});
  cases.push_back({"AllocatedMemoryCommunicates", allocates_memory_to_communicate});
  cases.push_back({"TheFenceIsReached", reaches_its_fence});
}

}  // namespace hvd::engine::test
