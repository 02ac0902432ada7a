#include "ops/hier/hier_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "test/core/runtime/forwarding_collective.h"
#include "test/support/collective_cases.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine {
namespace {

using test::Batch;
using test::TypedArray;
using testing::ElementsAre;

using Hosts = std::vector<int>;  // by rank

// What the flat collective is asked for.
class CountingCollective final : public test::ForwardingCollective {
 public:
  CountingCollective(std::unique_ptr<Collective> inner, int& reductions)
      : ForwardingCollective(std::move(inner)), reductions_(reductions) {}
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    ++reductions_;
    return ForwardingCollective::all_reduce(slices, reduction);
  }

 private:
  int& reductions_;
};

// Ranks on hosts: a simulated world for each host and one for all of them.
class HierWorld {
 public:
  explicit HierWorld(const Hosts& host_of, const SimOptions& sim = {}, bool make_locals = true)
      : host_of_(host_of), flat_(size(), sim), flat_reductions_(host_of.size()) {
    if (!make_locals) return;
    for (int host = 0; host <= *std::max_element(host_of.begin(), host_of.end()); ++host) {
      const auto ranks = std::count(host_of.begin(), host_of.end(), host);
      locals_.emplace_back(static_cast<int>(ranks), sim);
    }
  }

  int size() const { return static_cast<int>(host_of_.size()); }
  int flat_reductions(Rank rank) const { return flat_reductions_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<Collective> collective(Rank rank, const HierOptions& options = {}) {
    const HierLayout layout = make_hier_layout(rank, host_of_);
    std::unique_ptr<Collective> local;
    if (!locals_.empty()) local = locals_[layout.host].collective(static_cast<Rank>(layout.local));
    auto flat = std::make_unique<CountingCollective>(
        flat_.collective(rank), flat_reductions_[static_cast<std::size_t>(rank)]);
    return HierCollective::make(std::move(flat), std::move(local), rank, host_of_, options);
  }

 private:
  Hosts host_of_;
  SimWorld flat_;
  std::vector<int> flat_reductions_;
  std::deque<SimWorld> locals_;
};

struct Shape {
  std::string name;
  Hosts host_of;
  bool make_locals = true;
  SimOptions sim = {};
};

SimOptions delayed() {
  SimOptions options;
  options.max_delay = std::chrono::microseconds(200);
  return options;
}

const Shape kShapes[] = {
    {"TwoByThree", {0, 0, 0, 1, 1, 1}},
    {"OneAndThree", {0, 1, 1, 1}},
    {"Interleaved", {0, 1, 0, 1}},
    {"Turned", {0, 1, 1, 0}},
    {"ThreeUneven", {0, 1, 0, 2, 1, 1}, false},
    {"LocalMadeOfFlat", {0, 0, 1, 1}, false},
    {"Delayed", {0, 0, 1, 1}, true, delayed()},
};

// What the order of additions is not promised for without rank_order.
bool is_about_rank_order(const test::CollectiveCase& contract) {
  return contract.name == "AllReduceAddsInRankOrder" ||
         contract.name == "ReduceScatterIsAPartOfTheAllReduce";
}

std::vector<test::CollectiveCase> cases_by_host() {
  std::vector<test::CollectiveCase> cases = test::collective_contract();
  std::erase_if(cases, is_about_rank_order);
  return cases;
}

class HierCollectiveContract
    : public testing::TestWithParam<std::tuple<Shape, test::CollectiveCase>> {
 protected:
  static void hold(const HierOptions& options) {
    const auto& [shape, contract] = GetParam();
    HierWorld world(shape.host_of, shape.sim, shape.make_locals);
    test::run_ranks(world.size(), [&, &run = contract.run](Rank rank) {
      const auto collective = world.collective(rank, options);
      run(*collective, rank, world.size());
    });
  }
};

// Most of it is the flat collective's then.
class HierCollectiveInRankOrder : public HierCollectiveContract {};

TEST_P(HierCollectiveInRankOrder, HoldsToo) {
  hold({.rank_order = true});
}

TEST_P(HierCollectiveContract, HoldsByHost) {
  hold({});
}

std::string contract_name(const testing::TestParamInfo<HierCollectiveContract::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(All, HierCollectiveContract,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::ValuesIn(cases_by_host())),
                         contract_name);
INSTANTIATE_TEST_SUITE_P(All, HierCollectiveInRankOrder,
                         testing::Combine(testing::Values(Shape{"TwoByTwo", {0, 0, 1, 1}}),
                                          testing::ValuesIn(test::collective_contract())),
                         contract_name);
INSTANTIATE_TEST_SUITE_P(Abort, HierCollectiveContract,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::Values(test::collective_abort_contract())),
                         contract_name);

// Each host's numbers in rank order, then the hosts' sums in the order of hosts.
TypedArray sum_by_host(const Hosts& host_of, std::int64_t numel) {
  const auto inputs =
      test::wild_numbers_of_all(DType::kF32, static_cast<int>(host_of.size()), numel);
  return test::make_array(DType::kF32, numel, [&](std::int64_t i) {
    std::map<int, float> sums;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      const auto value = static_cast<float>(inputs[r].at(i));
      const auto [sum, is_first] = sums.try_emplace(host_of[r], value);
      if (!is_first) sum->second += value;
    }
    auto total = sums.begin()->second;
    for (auto it = std::next(sums.begin()); it != sums.end(); ++it) total += it->second;
    return static_cast<double>(total);
  });
}

TEST(HierCollective, AddsInsideEachHostAndThenBetweenHosts) {
  constexpr std::int64_t kNumel = 2'011;
  for (const Shape& shape : kShapes) {
    HierWorld world(shape.host_of, shape.sim, shape.make_locals);
    test::run_ranks(world.size(), [&](Rank rank) {
      const auto collective = world.collective(rank);
      Batch batch;
      batch.add(test::wild_numbers(DType::kF32, rank, kNumel), rank % 2 == 0);
      test::run_all_reduce(*collective, batch);
      test::expect_same(batch.output(0), sum_by_host(shape.host_of, kNumel), shape.name);
      EXPECT_EQ(world.flat_reductions(rank), 0) << shape.name;
    });
  }
}

int flat_reductions_of(DType dtype, const Reduction& reduction, const HierOptions& options) {
  HierWorld world({0, 0, 1, 1});
  test::run_ranks(world.size(), [&](Rank rank) {
    const auto collective = world.collective(rank, options);
    Batch batch;
    batch.add(TypedArray(dtype, 100));
    test::run_all_reduce(*collective, batch, reduction);
  });
  return world.flat_reductions(3);
}

TEST(HierCollective, LeavesToTheFlatOneWhatTwoLevelsWouldChange) {
  EXPECT_EQ(flat_reductions_of(DType::kF16, {}, {}), 1);
  EXPECT_EQ(flat_reductions_of(DType::kBF16, {.op = ReduceOp::kProduct}, {}), 1);
  EXPECT_EQ(flat_reductions_of(DType::kF16, {.op = ReduceOp::kMax}, {}), 0);
  EXPECT_EQ(flat_reductions_of(DType::kF32, {.op = ReduceOp::kAdasum}, {}), 1);
  EXPECT_EQ(flat_reductions_of(DType::kF32, {.wire = WireFormat::kF16}, {}), 1);
  EXPECT_EQ(flat_reductions_of(DType::kF32, {}, {.rank_order = true}), 1);
  EXPECT_EQ(flat_reductions_of(DType::kC128, {}, {.rank_order = true}), 1);
  EXPECT_EQ(flat_reductions_of(DType::kI32, {}, {.rank_order = true}), 0);
  EXPECT_EQ(flat_reductions_of(DType::kF32, {}, {.all_reduce = false}), 1);
}

TEST(HierCollective, IsOnlyMadeWhereItHelps) {
  const auto is_hier = [](const Hosts& host_of) {
    HierWorld world(host_of);
    const auto collective = world.collective(0);
    return dynamic_cast<HierCollective*>(collective.get()) != nullptr;
  };
  EXPECT_TRUE(is_hier({0, 0, 1, 1}));
  EXPECT_TRUE(is_hier({0, 1, 1}));
  EXPECT_FALSE(is_hier({0, 0, 0}));
  EXPECT_FALSE(is_hier({0, 1, 2}));
}

// The ranks' operations would meet those of others.
TEST(HierCollective, AnOperationGivenUpHalfwayEndsThoseAfterIt) {
  HierWorld world({0, 0, 1, 1});
  test::run_ranks(world.size(), [&](Rank rank) {
    const auto collective = world.collective(rank);
    Batch batches[2];
    for (Batch& batch : batches) batch.add(TypedArray(DType::kF32, 100));
    auto first = collective->all_reduce(batches[0].slices(), {});
    const auto second = collective->all_reduce(batches[1].slices(), {});
    first.reset();
    EXPECT_THROW(test::finish(*second, *collective), AbortedError);
  });
}

TEST(HierLayout, KnowsWhoIsWhere) {
  const HierLayout even = make_hier_layout(3, std::vector<int>{7, 7, 2, 2});
  EXPECT_EQ(even.host, 1u);
  EXPECT_EQ(even.local, 1u);
  EXPECT_THAT(even.here(), ElementsAre(2, 3));
  EXPECT_THAT(even.column(), ElementsAre(1, 3));
  EXPECT_TRUE(even.even());
  EXPECT_TRUE(even.in_blocks());
  const HierLayout mixed = make_hier_layout(2, std::vector<int>{0, 1, 0, 1});
  EXPECT_THAT(mixed.column(), ElementsAre(2, 3));
  EXPECT_FALSE(mixed.in_blocks());
  const HierLayout leader = make_hier_layout(1, std::vector<int>{0, 1, 1, 1});
  EXPECT_FALSE(leader.even());
  EXPECT_THAT(leader.column(), ElementsAre(0, 1));
  EXPECT_THAT(make_hier_layout(2, std::vector<int>{0, 1, 1, 1}).column(), ElementsAre());
}

}  // namespace
}  // namespace hvd::engine
