#include "ops/host/message_collective.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <random>
#include <tuple>

#include "test/support/collective_cases.h"
#include "test/support/lock_step_cluster.h"
#include "test/support/message_network.h"
#include "test/support/run_ranks.h"

namespace hvd::engine::test {
namespace {

struct Flavour {
  std::string name;
  host::MessageLimits limits;
  std::size_t step_bytes;
};

const Flavour kDefault = {"Default", {}, std::size_t{1} << 20};
// Every batch takes many pieces, with ranges of no element on some ranks.
const Flavour kTiny = {"Tiny", {.small_bytes = 0, .piece_bytes = 2'600}, 1'999};

// Here a transfer waits for what is in front of it, which over TCP is kept if it is small
// (ops/README.md).
std::vector<CollectiveCase> cases() {
  std::vector<CollectiveCase> all = collective_contract();
  std::erase_if(
      all, [](const CollectiveCase& each) { return each.name == "TransfersStandOutsideTheOrder"; });
  return all;
}

// Megabytes take too many of the small steps.
std::vector<CollectiveCase> small_cases() {
  std::vector<CollectiveCase> small = cases();
  std::erase_if(small, [](const CollectiveCase& each) {
    return each.name.find("Mebibytes") != std::string::npos;
  });
  return small;
}

using Parameters = std::tuple<Flavour, CollectiveCase>;

class MessageCollectiveContract : public ::testing::TestWithParam<Parameters> {
 protected:
  void hold(std::initializer_list<int> sizes) {
    const auto& [flavour, contract] = GetParam();
    for (const int size : sizes) {
      MessageNetwork network(size, flavour.limits, flavour.step_bytes, 1);
      run_ranks(size, [&, &run = contract.run, count = size](Rank rank) {
        host::MessageCollective collective(network.link(rank));
        run(collective, rank, count);
      });
    }
  }
};

TEST_P(MessageCollectiveContract, Holds) {
  hold({2, 3, 4});
}

std::string name_of_case(const ::testing::TestParamInfo<Parameters>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(All, MessageCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault),
                                            ::testing::ValuesIn(cases())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Tiny, MessageCollectiveContract,
                         ::testing::Combine(::testing::Values(kTiny),
                                            ::testing::ValuesIn(small_cases())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Abort, MessageCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault, kTiny),
                                            ::testing::Values(collective_abort_contract())),
                         name_of_case);

TEST(MessageCollective, RefusesPiecesShorterThanAnEncodedBlock) {
  MessageNetwork network(2, {.piece_bytes = 511}, 1, 1);
  EXPECT_THROW(host::MessageCollective{network.link(0)}, InvalidArgumentError);
}

// What comes in place of the data of a rank that gave up is never taken for data.
TEST(MessageCollective, DoesNotFinishWhatAnotherRankGaveUp) {
  for (const std::size_t numel : {1u, 100'000u}) {
    for (const std::size_t steps : {0u, 100u}) {
      MessageNetwork network(2, {}, 1'000, 1);
      host::MessageCollective zero(network.link(0));
      host::MessageCollective one(network.link(1));
      std::vector<std::int32_t> values[2] = {std::vector<std::int32_t>(numel, 1),
                                             std::vector<std::int32_t>(numel, 2)};
      const auto slice = [&](Rank rank) {
        const TensorView view{
            values[rank].data(), static_cast<std::int64_t>(numel), DType::kI32, {}};
        return Slice{view, view};
      };
      const Slice slices[] = {slice(0), slice(1)};
      const auto given_up = zero.all_reduce({&slices[0], 1}, {});
      given_up->advance();
      for (std::size_t step = 0; step < steps && numel > 1; ++step) network.step();
      given_up->withdraw();
      const auto waits = one.all_reduce({&slices[1], 1}, {});
      const TimePoint start = Clock::now();
      try {
        while (!waits->advance()) ASSERT_LT(Clock::now(), start + std::chrono::seconds(20));
        ADD_FAILURE() << "it finished";
      } catch (const AbortedError& error) {
        EXPECT_NE(std::string(error.what()).find("another rank gave up"), std::string::npos);
      }
      EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(400)) << "the reason may follow";
    }
  }
}

TEST(MessageCollective, NeitherOfTwoRanksWaitsForWhatTheOtherReduces) {
  constexpr std::size_t kNumel = 100'000;
  MessageNetwork network(2, {}, 1'000, 1);
  host::MessageCollective zero(network.link(0));
  host::MessageCollective one(network.link(1));
  std::vector<std::int32_t> mine(kNumel, 1);
  std::vector<std::int32_t> others(kNumel, 2);
  const auto start = [](host::MessageCollective& rank, std::vector<std::int32_t>& values) {
    const TensorView view{values.data(), static_cast<std::int64_t>(values.size()), DType::kI32, {}};
    const Slice slice{view, view};
    auto operation = rank.all_reduce({&slice, 1}, {});
    EXPECT_FALSE(operation->advance());
    return operation;
  };
  const auto here = start(zero, mine);
  const auto there = start(one, others);
  while (network.step()) {
  }
  EXPECT_TRUE(here->advance());
  EXPECT_EQ(mine, std::vector<std::int32_t>(kNumel, 3));
  EXPECT_TRUE(there->advance());
  EXPECT_EQ(others, mine);
}

// One operation of a set, the same on all of its ranks, or a transfer between two of them.
struct Plan {
  enum Kind { kAllReduce, kReduceScatter, kBroadcast, kAllGather, kAllToAll, kAdasum, kTransfer };
  Kind kind = kAllReduce;
  std::size_t set = 0;
  Rank root = 0;        // or who sends
  Rank to = 0;          // kTransfer
  bool in_two = false;  // slices, so that the pieces are packed
  // Elements that go from one rank of the set to another; the first row is that of all others where
  // it does not depend on the sender, the first number where it is one for all.
  std::vector<std::vector<std::size_t>> counts;
};

struct Program {
  int size = 0;
  host::MessageLimits limits;
  std::vector<std::vector<Rank>> sets;
  std::vector<Plan> plans;
  std::vector<std::vector<std::size_t>> orders;  // by rank: of the plans
};

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t count) {
  return random() % count;
}

Plan random_plan(Random& random, const std::vector<std::vector<Rank>>& sets) {
  Plan plan;
  plan.kind = static_cast<Plan::Kind>(below(random, 7));
  plan.set = plan.kind == Plan::kTransfer ? 0 : below(random, sets.size());
  const std::size_t ranks = sets[plan.set].size();
  plan.root = static_cast<Rank>(below(random, ranks));
  if (plan.kind == Plan::kTransfer) {  // among all: at least two
    const auto root = static_cast<std::size_t>(plan.root);
    plan.to = static_cast<Rank>((root + 1 + below(random, ranks - 1)) % ranks);
  }
  plan.in_two = below(random, 2) == 0;
  for (std::size_t from = 0; from < ranks; ++from) {
    auto& row = plan.counts.emplace_back();
    for (std::size_t to = 0; to < ranks; ++to) {
      const std::size_t most = below(random, 2) == 0 ? 6 : 900;
      row.push_back(below(random, 2) == 0 ? 0 : below(random, most));
    }
  }
  return plan;
}

// Each rank starts the operations of a set in one order, but sets and transfers in an order of its
// own.
Program random_program(Random& random) {
  Program program;
  program.size = 2 + static_cast<int>(below(random, 4));
  program.limits = {.small_bytes = below(random, 2) * 600, .piece_bytes = 512};
  program.limits.pieces = 1 + below(random, 2);
  for (std::size_t set = 0; set < 4; ++set) {
    auto& ranks = program.sets.emplace_back();
    for (Rank rank = 0; rank < program.size; ++rank) {
      if (set == 0 || below(random, 3) != 0) ranks.push_back(rank);
    }
    if (ranks.empty()) ranks.push_back(0);
  }
  std::vector<std::size_t> sequences;  // by plan: those of one keep their order
  for (std::size_t i = 0; i < 10; ++i) {
    const Plan& plan = program.plans.emplace_back(random_plan(random, program.sets));
    sequences.push_back(plan.kind == Plan::kTransfer ? program.sets.size() + i : plan.set);
  }
  std::vector<std::size_t> shuffled = sequences;
  for (Rank rank = 0; rank < program.size; ++rank) {
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    std::vector<std::size_t> next(program.sets.size() + sequences.size());
    auto& order = program.orders.emplace_back();
    for (const std::size_t sequence : shuffled) {
      while (sequences[next[sequence]] != sequence) ++next[sequence];
      order.push_back(next[sequence]++);
    }
  }
  return program;
}

// What rank `from` of a set brings for rank `to`, of which element i.
std::int32_t value(std::size_t plan, std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<std::int32_t>(plan * 1'000'000 + from * 10'000 + to * 1'000 + i % 997);
}

// One operation on one rank.
class Part {
 public:
  Part(const Program& program, std::size_t index, Rank world_rank)
      : plan_(program.plans[index]),
        index_(index),
        ranks_(program.sets[plan_.set].size()),
        rank_(static_cast<std::size_t>(std::ranges::find(program.sets[plan_.set], world_rank) -
                                       program.sets[plan_.set].begin())) {}

  void start(Collective& collective);
  bool finished() const { return operation_ == nullptr; }
  void advance() {
    if (!operation_->advance()) return;
    check();
    operation_ = nullptr;
  }

 private:
  // As many elements go from one rank to another.
  std::size_t count(std::size_t from, std::size_t to) const {
    switch (plan_.kind) {
      case Plan::kAllToAll:
        return plan_.counts[from][to];
      case Plan::kAllGather:
        return plan_.counts[from][0];
      case Plan::kReduceScatter:
        return plan_.counts[0][to];
      default:
        return plan_.counts[0][0];
    }
  }
  bool reduces() const {
    return plan_.kind == Plan::kAllReduce || plan_.kind == Plan::kReduceScatter;
  }
  // What comes is one rank's.
  bool has_root() const { return plan_.kind == Plan::kBroadcast || plan_.kind == Plan::kTransfer; }
  bool is(Rank rank) const { return rank_ == static_cast<std::size_t>(rank); }
  void fill(std::size_t to, std::size_t elements) {
    for (std::size_t i = 0; i < elements; ++i) {
      input_.push_back(value(index_, rank_, to, i));
    }
  }
  void check() const;
  std::vector<Slice> slices();

  const Plan& plan_;
  std::size_t index_;
  std::size_t ranks_;
  std::size_t rank_;
  std::vector<std::int32_t> input_;
  std::vector<std::int32_t> output_;
  std::vector<float> floats_;
  std::unique_ptr<Operation> operation_;
};

std::vector<Slice> Part::slices() {
  const bool adasum = plan_.kind == Plan::kAdasum;
  const std::size_t numel = count(0, 0);
  std::vector<Slice> slices;
  const std::size_t half = plan_.in_two ? numel / 2 : numel;
  for (const auto& [first, last] : {std::pair{std::size_t{0}, half}, std::pair{half, numel}}) {
    void* const in = adasum ? static_cast<void*>(floats_.data() + first) : input_.data() + first;
    void* const out = adasum ? in : output_.data() + first;
    const auto elements = static_cast<std::int64_t>(last - first);
    const DType dtype = adasum ? DType::kF32 : DType::kI32;
    if (last > first) slices.push_back({{in, elements, dtype, {}}, {out, elements, dtype, {}}});
  }
  return slices;
}

void Part::start(Collective& collective) {
  std::vector<std::size_t> to_bytes(ranks_);
  std::vector<std::size_t> from_bytes(ranks_);
  std::vector<std::int64_t> numels(ranks_);
  std::size_t in = 0;
  std::size_t out = 0;
  for (std::size_t r = 0; r < ranks_; ++r) {
    to_bytes[r] = count(rank_, r) * sizeof(std::int32_t);
    from_bytes[r] = count(r, rank_) * sizeof(std::int32_t);
    numels[r] = static_cast<std::int64_t>(count(rank_, r));
    in += count(rank_, r);
    out += count(r, rank_);
  }
  const bool many = plan_.kind == Plan::kAllToAll || plan_.kind == Plan::kReduceScatter;
  if (many) {
    for (std::size_t r = 0; r < ranks_; ++r) fill(r, count(rank_, r));
  } else {
    fill(0, count(rank_, 0));
  }
  output_.resize(std::max(in, out));
  floats_.resize(count(0, 0), 1.0F);
  const auto all = static_cast<std::int64_t>(in);
  switch (plan_.kind) {
    case Plan::kAllReduce:
      operation_ = collective.all_reduce(slices(), {});
      break;
    case Plan::kAdasum:
      operation_ = collective.all_reduce(slices(), {.op = ReduceOp::kAdasum});
      break;
    case Plan::kBroadcast:
      operation_ = collective.broadcast(slices(), plan_.root);
      break;
    case Plan::kReduceScatter: {
      const ScatterSlice slice = {{input_.data(), all, DType::kI32, {}},
                                  {output_.data(), numels[rank_], DType::kI32, {}},
                                  numels};
      operation_ = collective.reduce_scatter({&slice, 1}, {});
      break;
    }
    case Plan::kAllGather: {
      const GatherSlice slice = {input_.data(), output_.data(), from_bytes};
      operation_ = collective.all_gather({&slice, 1});
      break;
    }
    case Plan::kAllToAll: {
      const ExchangeSlice slice = {input_.data(), output_.data(), to_bytes, from_bytes};
      operation_ = collective.all_to_all({&slice, 1});
      break;
    }
    case Plan::kTransfer: {
      const int tag = static_cast<int>(index_);
      const auto elements = static_cast<std::int64_t>(count(0, 0));
      if (is(plan_.root)) {
        operation_ = collective.send({input_.data(), elements, DType::kI32, {}}, plan_.to, tag);
      } else if (is(plan_.to)) {
        operation_ =
            collective.receive({output_.data(), elements, DType::kI32, {}}, plan_.root, tag);
      }
      break;
    }
  }
}

void Part::check() const {
  if (plan_.kind == Plan::kAdasum) return;
  if (plan_.kind == Plan::kTransfer && !is(plan_.to)) return;
  const std::size_t to =
      plan_.kind == Plan::kAllToAll || plan_.kind == Plan::kReduceScatter ? rank_ : 0;
  std::size_t at = 0;
  for (std::size_t from = 0; from < (reduces() || has_root() ? 1 : ranks_); ++from) {
    const std::size_t source = has_root() ? static_cast<std::size_t>(plan_.root) : from;
    for (std::size_t i = 0; i < count(source, rank_); ++i, ++at) {
      std::int32_t expected = value(index_, source, to, i);
      for (std::size_t r = 1; reduces() && r < ranks_; ++r) expected += value(index_, r, to, i);
      ASSERT_EQ(output_[at], expected) << "plan " << index_ << " element " << at;
    }
  }
}

// The ranks of a program as values of one thread: whatever is done next is drawn.
class LockStep {
 public:
  LockStep(const Program& program, Random& random)
      : program_(program),
        random_(random),
        network_(program.size, program.limits, 1, static_cast<unsigned>(random())),
        ranks_(static_cast<std::size_t>(program.size)) {
    for (Rank rank = 0; rank < program.size; ++rank) {
      Node& node = ranks_[static_cast<std::size_t>(rank)];
      node.sets.push_back(std::make_unique<host::MessageCollective>(network_.link(rank)));
      for (std::size_t set = 1; set < program.sets.size(); ++set) {
        const auto& members = program.sets[set];
        const bool member = std::ranges::count(members, rank) != 0;
        node.sets.push_back(member ? node.sets[0]->subset(static_cast<std::uint32_t>(set), members)
                                   : nullptr);
      }
      for (const std::size_t index : program.orders[static_cast<std::size_t>(rank)]) {
        if (node.sets[program.plans[index].set] != nullptr) node.to_start.push_back(index);
      }
    }
  }

  // False if it comes to a point at which nothing can be done any more.
  bool run() {
    for (;;) {
      for (int i = 0; i < 200; ++i) act(below(random_, ranks_.size()));
      const std::uint64_t before = network_.changes() + done_;
      bool finished = true;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        for (Part& part : ranks_[rank].running) advance(part);
        finished = finished && ranks_[rank].to_start.empty();
        for (const Part& part : ranks_[rank].running) finished = finished && part.finished();
      }
      if (finished || ::testing::Test::HasFatalFailure()) return true;
      if (network_.step() || network_.changes() + done_ != before) continue;
      bool started = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) started = start(rank) || started;
      if (!started) return false;
    }
  }

 private:
  struct Node {
    std::vector<std::unique_ptr<Collective>> sets;
    std::deque<std::size_t> to_start;
    std::deque<Part> running;
  };

  void advance(Part& part) {
    if (part.finished()) return;
    part.advance();
    if (part.finished()) ++done_;
  }
  bool start(std::size_t rank) {
    Node& node = ranks_[rank];
    if (node.to_start.empty()) return false;
    const std::size_t index = node.to_start.front();
    node.to_start.pop_front();
    node.running.emplace_back(program_, index, static_cast<Rank>(rank));
    node.running.back().start(*node.sets[program_.plans[index].set]);
    return true;
  }
  void act(std::size_t rank) {
    Node& node = ranks_[rank];
    if (below(random_, 60) == 0) start(rank);
    if (!node.running.empty()) advance(node.running[below(random_, node.running.size())]);
    for (std::size_t steps = below(random_, 40); steps > 0; --steps) network_.step();
  }

  const Program& program_;
  Random& random_;
  MessageNetwork network_;
  std::vector<Node> ranks_;
  std::uint64_t done_ = 0;
};

TEST(MessageCollective, EndsInWhateverOrderOperationsAndTransfersStartAndBytesArrive) {
  for (int seed = 0; seed < repetitions(60); ++seed) {
    Random random(static_cast<unsigned>(seed));
    const Program program = random_program(random);
    ASSERT_TRUE(LockStep(program, random).run()) << "seed " << seed << ": each waits for another";
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace hvd::engine::test
