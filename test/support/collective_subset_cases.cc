#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

// Numbers are never used again: every case has a hundred of its own.
constexpr std::uint32_t kOverlapping = 100;
constexpr std::uint32_t kAlone = 200;
constexpr std::uint32_t kEveryone = 300;
constexpr std::uint32_t kHalves = 400;
constexpr std::uint32_t kNested = 500;
constexpr std::uint32_t kRepeated = 600;

using Ranks = std::vector<Rank>;

Ranks ranks_where(int size, const std::function<bool(Rank)>& is_member) {
  Ranks ranks;
  for (Rank rank = 0; rank < size; ++rank) {
    if (is_member(rank)) ranks.push_back(rank);
  }
  return ranks;
}

TypedArray filled(double value) {
  return make_array(DType::kF64, 1'000, [value](std::int64_t) { return value; });
}

// What one rank runs on one subset.
struct Member {
  Ranks ranks;
  std::unique_ptr<Collective> collective;
  Batch batch;
  std::unique_ptr<Operation> operation;
};

void start(Member& member, Rank rank) {
  member.batch.add(filled(rank + 1));
  member.operation = member.collective->all_reduce(member.batch.slices(), {});
}

void expect_sum(const Member& member, const std::string& what) {
  double sum = 0;
  for (const Rank rank : member.ranks) sum += rank + 1;
  expect_same(member.batch.output(0), filled(sum), what);
}

// A ring of pairs: each rank is in two of them, and half of the ranks take them the other way
// round. Who waited for one before it starts the other would wait forever.
void overlapping_ones_do_not_deadlock(Collective& collective, Rank rank, int size) {
  std::deque<Member> members;
  for (Rank first = 0; first < size; ++first) {
    const Rank second = (first + 1) % size;
    if (rank != first && rank != second) continue;
    members.emplace_back().ranks =
        ranks_where(size, [&](Rank each) { return each == first || each == second; });
  }
  std::vector<std::uint32_t> numbers;
  for (Rank first = 0; first < size; ++first) {
    if (rank == first || rank == (first + 1) % size) {
      numbers.push_back(kOverlapping + static_cast<std::uint32_t>(first));
    }
  }
  std::vector<std::size_t> order(members.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (rank % 2 == 1) std::reverse(order.begin(), order.end());
  for (const std::size_t i : order) {
    members[i].collective = collective.subset(numbers[i], members[i].ranks);
    start(members[i], rank);
  }
  const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
  std::size_t finished = 0;
  while (finished != members.size()) {
    ASSERT_LT(Clock::now(), deadline) << "overlapping subsets wait for each other";
    finished = 0;
    for (const std::size_t i : order) finished += members[i].operation->advance() ? 1 : 0;
    std::this_thread::yield();
  }
  for (const Member& member : members) {
    member.collective->fence().wait();
    expect_sum(member, "a pair's sum");
  }
}

void one_rank_is_a_world_of_its_own(Collective& collective, Rank rank, int) {
  const Rank only[] = {rank};
  const auto alone = collective.subset(kAlone + static_cast<std::uint32_t>(rank), only);
  EXPECT_EQ(alone->device(), collective.device());
  Batch batch;
  batch.add(filled(rank));
  run_all_reduce(*alone, batch, {.postscale = 4});
  expect_same(batch.output(0), filled(4 * rank), "alone");
  TypedArray sent = filled(7);
  TypedArray received(DType::kF64, 1'000);
  Operations operations;
  operations.push_back(alone->send(sent.view(), 0, 3));
  operations.push_back(alone->receive(received.view(), 0, 3));
  finish_all(operations, *alone);
  expect_same(received, filled(7), "from itself");
}

// Each kind of operation, in a subset and outside of it at the same time.
void everyone_is_a_set_of_its_own(Collective& collective, Rank rank, int size) {
  const auto same = collective.subset(kEveryone, ranks_where(size, [](Rank) { return true; }));
  Collective* const both[] = {&collective, same.get()};
  Batch broadcasts[2];
  TypedArray sent[] = {filled(rank), filled(rank + 100)};
  TypedArray received[] = {TypedArray(DType::kF64, 1'000), TypedArray(DType::kF64, 1'000)};
  std::vector<std::int64_t> all[] = {std::vector<std::int64_t>(static_cast<std::size_t>(size)),
                                     std::vector<std::int64_t>(static_cast<std::size_t>(size))};
  const std::int64_t mine[] = {rank, rank + 100};
  Operations operations;
  for (const std::size_t i : {1u, 0u}) {
    broadcasts[i].add(filled(rank + 100.0 * static_cast<double>(i)));
    operations.push_back(both[i]->receive(received[i].view(), (rank + 1) % size, 0));
    operations.push_back(both[i]->broadcast(broadcasts[i].slices(), size - 1));
    operations.push_back(both[i]->exchange({&mine[i], 1}, all[i]));
  }
  for (const std::size_t i : {0u, 1u}) {  // not in the order of the receives
    operations.push_back(both[i]->send(sent[i].view(), (rank + size - 1) % size, 0));
  }
  finish_all(operations, collective);
  same->fence().wait();
  for (const std::size_t i : {0u, 1u}) {
    const double extra = 100.0 * static_cast<double>(i);
    expect_same(received[i], filled((rank + 1) % size + extra), "received");
    expect_same(broadcasts[i].output(0), filled(size - 1 + extra), "broadcast");
    for (Rank from = 0; from < size; ++from) {
      EXPECT_EQ(all[i][static_cast<std::size_t>(from)], from + 100 * static_cast<int>(i));
    }
  }
}

// The even ranks work on while the odd ones have not even begun.
void disjoint_ones_do_not_wait_for_each_other(Collective& collective, Rank rank, int size) {
  if (size == 1) return;
  const int parity = rank % 2;
  const Ranks half = ranks_where(size, [&](Rank each) { return each % 2 == parity; });
  const auto mine = static_cast<int>(half.size());
  const auto subset = collective.subset(kHalves + static_cast<std::uint32_t>(parity), half);
  const auto work = [&] {
    for (int round = 0; round < 10; ++round) {
      const Rank root = round % mine;
      Batch batch;
      batch.add(filled(rank * 10 + round));
      const auto operation = subset->broadcast(batch.slices(), root);
      finish(*operation, *subset);
      expect_same(batch.output(0), filled(half[static_cast<std::size_t>(root)] * 10 + round),
                  "round " + std::to_string(round));
    }
  };
  TypedArray word(DType::kU8, 1);
  if (parity == 0) work();
  Operations words;
  if (parity == 1) words.push_back(collective.receive(word.view(), rank - 1, 9));
  if (parity == 0 && rank + 1 < size) words.push_back(collective.send(word.view(), rank + 1, 9));
  finish_all(words, collective);
  if (parity == 1) work();
}

void a_subset_has_subsets(Collective& collective, Rank rank, int size) {
  const Ranks upper = ranks_where(size, [&](Rank each) { return each >= size / 2; });
  if (rank < size / 2) return;
  const auto outer = collective.subset(kNested, upper);
  const auto mine = static_cast<int>(upper.size());
  const Rank inner_rank = rank - size / 2;
  if (inner_rank == 0 && mine > 1) return;
  Member member;
  member.ranks = ranks_where(mine, [&](Rank each) { return mine == 1 || each > 0; });
  member.collective = outer->subset(kNested, member.ranks);
  start(member, inner_rank);
  finish(*member.operation, *member.collective);
  expect_sum(member, "the inner sum");
}

void many_may_come_and_go(Collective& collective, Rank rank, int size) {
  const Ranks everyone = ranks_where(size, [](Rank) { return true; });
  for (std::uint32_t round = 0; round < 20; ++round) {
    Member member;
    member.ranks = everyone;
    member.collective = collective.subset(kRepeated + round, everyone);
    if (round % 5 == 4) continue;  // made and not used
    start(member, rank);
    finish(*member.operation, *member.collective);
    expect_sum(member, "round " + std::to_string(round));
    member.operation.reset();
  }
}

}  // namespace

void add_subset_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"SubsetsThatOverlapDoNotDeadlock", overlapping_ones_do_not_deadlock});
  cases.push_back({"SubsetOfOneRankIsAWorldOfItsOwn", one_rank_is_a_world_of_its_own});
  cases.push_back({"SubsetOfAllIsApartFromAll", everyone_is_a_set_of_its_own});
  cases.push_back({"SubsetsApartDoNotWait", disjoint_ones_do_not_wait_for_each_other});
  cases.push_back({"SubsetsHaveSubsets", a_subset_has_subsets});
  cases.push_back({"SubsetsMayComeAndGo", many_may_come_and_go});
}

}  // namespace hvd::engine::test
