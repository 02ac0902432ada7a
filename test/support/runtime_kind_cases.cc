// Every kind of collective: alone and as a group, in the world and in a process set, with and
// without ranks that have joined.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "test/support/runtime_cases.h"

namespace hvd::engine::test {
namespace {

using Floats = std::vector<float>;
using Counts = std::vector<std::int64_t>;

// Where one rank makes its calls.
struct Scene {
  Runtime* runtime = nullptr;
  Rank rank = 0;
  ProcessSetId set = kWorldSet;
  std::vector<Rank> members;
  std::vector<bool> joined;  // by rank of the world
  DeviceKind device = DeviceKind::kCpu;
  std::size_t tensors = 1;  // more are a group

  int size() const { return static_cast<int>(members.size()); }
  int position() const {
    return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  }
  bool active(Rank other) const { return !joined[static_cast<std::size_t>(other)]; }
  Rank root() const {
    return *std::find_if(members.begin(), members.end(),
                         [this](Rank member) { return active(member); });
  }
  // Folds what the active members bring.
  float fold(float start, const std::function<float(float, float)>& step) const {
    for (const Rank member : members) {
      if (active(member)) start = step(start, static_cast<float>(member + 1));
    }
    return start;
  }
  float mine() const { return static_cast<float>(rank + 1); }
  float sum() const { return fold(0, std::plus<>()); }

  // One tensor a part, made by `make(i)`; waits for the outcome.
  Outcome run(const std::function<Submission(std::size_t)>& make) const {
    Submission call = make(0);
    for (std::size_t i = 1; i < tensors; ++i) {
      Submission next = make(i);
      call.request.shapes.push_back(next.request.shapes.front());
      call.parts.push_back(std::move(next.parts.front()));
    }
    if (set != kWorldSet) call = test::in_set(set, std::move(call));
    return runtime->submit(std::move(call)).wait();
  }
};

Floats repeated(float value, std::size_t count) {
  return Floats(count, value);
}

void reduces(const Scene& scene) {
  const auto check = [&](ReduceOp op, float mine, float expected) {
    std::vector<test::Values<float>> values;
    for (std::size_t i = 0; i < scene.tensors; ++i) values.push_back(shared(repeated(mine, i + 3)));
    scene.run([&](std::size_t i) { return test::allreduce("x", values[i], op, scene.device); });
    for (std::size_t i = 0; i < scene.tensors; ++i) {
      EXPECT_EQ(*values[i], repeated(expected, i + 3)) << name_of(op);
    }
  };
  check(ReduceOp::kSum, scene.mine(), scene.sum());
  check(ReduceOp::kAverage, 1, 1);  // the ranks that contribute divide it
  check(ReduceOp::kProduct, scene.mine(), scene.fold(1, std::multiplies<>()));
  check(ReduceOp::kMin, scene.mine(),
        scene.fold(100, [](float a, float b) { return std::min(a, b); }));
  check(ReduceOp::kMax, -scene.mine(),
        scene.fold(-100, [](float a, float b) { return std::max(a, -b); }));
}

void flags(const Scene& scene) {
  const auto run = [&](bool flagged) {
    const Outcome outcome = scene.run([&](std::size_t i) {
      auto call = test::allreduce("x", shared(repeated(1, i + 3)), ReduceOp::kSum, scene.device);
      call.request.flagged = flagged;
      return call;
    });
    return outcome.flagged;
  };
  EXPECT_FALSE(run(false));
  EXPECT_TRUE(run(scene.rank == scene.root()));
  EXPECT_FALSE(run(false));
}

void scales(const Scene& scene) {
  std::vector<test::Values<float>> values;
  for (std::size_t i = 0; i < scene.tensors; ++i)
    values.push_back(shared(repeated(scene.mine(), 5)));
  scene.run([&](std::size_t i) {
    auto call = test::allreduce("x", values[i], ReduceOp::kSum, scene.device);
    call.request.prescale = 0.5;
    call.request.postscale = 8;
    return call;
  });
  for (const auto& value : values) EXPECT_EQ(*value, repeated(4 * scene.sum(), 5));
}

void takes_bits(const Scene& scene) {
  for (const ReduceOp op : {ReduceOp::kBitAnd, ReduceOp::kBitOr}) {
    std::vector<test::Values<std::int64_t>> values;
    std::int64_t expected = op == ReduceOp::kBitAnd ? -1 : 0;
    const auto bits = [](Rank rank) { return std::int64_t{0xf0} | (std::int64_t{1} << rank); };
    for (const Rank member : scene.members) {
      if (!scene.active(member)) continue;
      expected = op == ReduceOp::kBitAnd ? expected & bits(member) : expected | bits(member);
    }
    for (std::size_t i = 0; i < scene.tensors; ++i) {
      values.push_back(shared<std::int64_t>({bits(scene.rank)}));
    }
    scene.run([&](std::size_t i) { return test::allreduce("x", values[i], op, scene.device); });
    for (const auto& value : values) EXPECT_EQ(value->front(), expected) << name_of(op);
  }
}

void broadcasts(const Scene& scene) {
  std::vector<test::Values<float>> values;
  for (std::size_t i = 0; i < scene.tensors; ++i)
    values.push_back(shared(repeated(scene.mine(), 4)));
  scene.run(
      [&](std::size_t i) { return test::broadcast("x", values[i], scene.root(), scene.device); });
  for (const auto& value : values) {
    EXPECT_EQ(*value, repeated(static_cast<float>(scene.root() + 1), 4));
  }
}

// Rank r brings r % 3 + i rows of two to the i-th tensor.
std::size_t rows_of(Rank rank, std::size_t tensor) {
  return static_cast<std::size_t>(rank % 3) + tensor;
}

void check_gathered(const Scene& scene, const Outcome& outcome) {
  for (std::size_t i = 0; i < scene.tensors; ++i) {
    Floats expected;
    Counts counts;
    for (const Rank member : scene.members) {
      const std::size_t rows = scene.active(member) ? rows_of(member, i) : 0;
      expected.insert(expected.end(), 2 * rows, static_cast<float>(member + 1));
      counts.push_back(static_cast<std::int64_t>(rows));
    }
    EXPECT_EQ(gathered<float>(outcome, i), expected);
    EXPECT_EQ(test::rows_of(outcome, i), counts);
  }
}

void gathers_everywhere(const Scene& scene) {
  check_gathered(scene, scene.run([&](std::size_t i) {
    const auto values = shared(repeated(scene.mine(), 2 * rows_of(scene.rank, i)));
    return test::allgather("x", values, 2, scene.device);
  }));
}

void gathers_on_the_root(const Scene& scene) {
  const Outcome outcome = scene.run([&](std::size_t i) {
    const auto values = shared(repeated(scene.mine(), 2 * rows_of(scene.rank, i)));
    return test::gather("x", values, 2, scene.root(), scene.device);
  });
  if (scene.rank == scene.root()) {
    check_gathered(scene, outcome);
    return;
  }
  for (std::size_t i = 0; i < scene.tensors; ++i) {
    EXPECT_TRUE(gathered<float>(outcome, i).empty());
    EXPECT_TRUE(test::rows_of(outcome, i).empty());
  }
}

// Rows of three that one position sends to another, all the same number.
std::size_t split(int from, int to, std::size_t tensor) {
  return (static_cast<std::size_t>(from + 2 * to) + tensor) % 3;
}
float mark(int from, int to) {
  return static_cast<float>(100 * from + to);
}

Submission split_call(const Scene& scene, CollectiveKind kind, std::size_t tensor) {
  Floats values;
  Counts splits;
  for (int to = 0; to < scene.size(); ++to) {
    const std::size_t rows = split(scene.position(), to, tensor);
    splits.push_back(static_cast<std::int64_t>(rows));
    values.insert(values.end(), 3 * rows, mark(scene.position(), to));
  }
  if (kind == CollectiveKind::kAlltoall) {
    return test::alltoall("x", shared(values), 3, splits, scene.device);
  }
  if (scene.rank != scene.root()) {
    return test::scatter("x", shared<float>({}), 3, scene.root(), {}, scene.device);
  }
  return test::scatter("x", shared(values), 3, scene.root(), splits, scene.device);
}

void moves_splits(const Scene& scene, CollectiveKind kind) {
  const Outcome outcome = scene.run([&](std::size_t i) { return split_call(scene, kind, i); });
  for (std::size_t i = 0; i < scene.tensors; ++i) {
    Floats expected;
    Counts counts;
    for (int from = 0; from < scene.size(); ++from) {
      const Rank sender = scene.members[static_cast<std::size_t>(from)];
      const bool sends =
          kind == CollectiveKind::kAlltoall ? scene.active(sender) : sender == scene.root();
      const std::size_t rows = sends ? split(from, scene.position(), i) : 0;
      expected.insert(expected.end(), 3 * rows, mark(from, scene.position()));
      counts.push_back(static_cast<std::int64_t>(rows));
    }
    EXPECT_EQ(gathered<float>(outcome, i), expected) << name_of(kind);
    EXPECT_EQ(test::rows_of(outcome, i), counts) << name_of(kind);
  }
}

void exchanges_everything(const Scene& scene) {
  moves_splits(scene, CollectiveKind::kAlltoall);
}

void scatters_from_the_root(const Scene& scene) {
  moves_splits(scene, CollectiveKind::kScatter);
}

// Rows of two that do not divide evenly; row k is k * (rank + 1) on each rank.
void scatters_a_sum(const Scene& scene) {
  std::vector<test::Values<float>> outputs;
  std::vector<Floats> expected;
  scene.run([&](std::size_t i) {
    const std::int64_t rows = 2 * scene.size() - 1 + static_cast<std::int64_t>(i);
    Floats values;
    for (std::int64_t row = 0; row < rows; ++row) {
      values.insert(values.end(), 2, static_cast<float>(row) * scene.mine());
    }
    const Counts shares = scattered_rows(rows, scene.size());
    const auto me = shares.begin() + scene.position();
    Floats& mine = expected.emplace_back();
    const std::int64_t first = std::accumulate(shares.begin(), me, std::int64_t{0});
    for (std::int64_t row = first; row < first + *me; ++row) {
      mine.insert(mine.end(), 2, static_cast<float>(row) * scene.sum());
    }
    outputs.push_back(shared(repeated(-1, mine.size())));
    return test::reducescatter("x", shared(values), {rows, 2}, outputs.back(), ReduceOp::kSum,
                               scene.device);
  });
  for (std::size_t i = 0; i < scene.tensors; ++i) EXPECT_EQ(*outputs[i], expected[i]);
}

void reduces_to_the_root(const Scene& scene) {
  std::vector<test::Values<float>> values;
  for (std::size_t i = 0; i < scene.tensors; ++i)
    values.push_back(shared(repeated(scene.mine(), 4)));
  scene.run([&](std::size_t i) {
    return test::reduce("x", values[i], scene.root(), ReduceOp::kSum, scene.device);
  });
  const float expected = scene.rank == scene.root() ? scene.sum() : scene.mine();
  for (const auto& value : values) EXPECT_EQ(*value, repeated(expected, 4));
}

void meets(const Scene& scene) {
  auto call = test::barrier("x", scene.device);
  if (scene.set != kWorldSet) call = test::in_set(scene.set, std::move(call));
  EXPECT_TRUE(scene.runtime->submit(std::move(call)).wait().results.empty());
}

void do_everything(Scene scene) {
  for (const std::size_t tensors : {1u, 3u}) {
    scene.tensors = tensors;
    for (const auto kind : {reduces, flags, scales, takes_bits, broadcasts, gathers_everywhere,
                            gathers_on_the_root, exchanges_everything, scatters_from_the_root,
                            scatters_a_sum, reduces_to_the_root, meets}) {
      kind(scene);
    }
  }
}

Scene scene(const RuntimePlace& at) {
  Scene made;
  made.runtime = &at.runtime;
  made.rank = at.rank;
  for (Rank rank = 0; rank < at.size; ++rank) made.members.push_back(rank);
  made.joined.resize(static_cast<std::size_t>(at.size));
  made.device = at.device;
  return made;
}

void in_the_world(const RuntimePlace& at) {
  do_everything(scene(at));
}

ProcessSetId added(const RuntimePlace& at, const std::vector<Rank>& members) {
  return static_cast<ProcessSetId>(at.runtime.submit(add_set("set", members)).wait().number);
}

void in_a_process_set(const RuntimePlace& at) {
  Scene some = scene(at);
  some.members = {0, at.size - 1};  // neither all ranks nor, for most sizes, neighbours
  if (at.size == 2) some.members = {1};
  some.set = added(at, some.members);
  const auto& members = some.members;
  if (std::find(members.begin(), members.end(), at.rank) == members.end()) return;
  do_everything(some);
}

void leave_joined_ranks_out(const RuntimePlace& at) {
  Scene some = scene(at);
  for (Rank other = 1; other < at.size; other += 2) {
    some.joined[static_cast<std::size_t>(other)] = true;
  }
  if (some.active(at.rank)) do_everything(some);
  const auto last = at.runtime.submit(join("join")).wait().number;
  EXPECT_EQ(last % 2, 0) << "the ranks with odd numbers had joined before";
  // All may submit again.
  const auto values = shared<float>({1});
  at.runtime.submit(allreduce("after", values, ReduceOp::kSum, at.device)).wait();
  EXPECT_EQ(values->front(), static_cast<float>(at.size));
}

void leave_joined_ranks_of_a_set_out(const RuntimePlace& at) {
  if (at.size < 5) return;
  Scene some = scene(at);
  some.members = {1, 2, 4};
  some.joined[2] = true;
  some.set = added(at, some.members);
  if (at.rank != 1 && at.rank != 2 && at.rank != 4) return;
  if (some.active(at.rank)) do_everything(some);
  EXPECT_NE(at.runtime.submit(in_set(some.set, join("join"))).wait().number, 2);
}

}  // namespace

void add_runtime_kind_cases(RuntimeCases& cases) {
  cases.push_back({"KindsGiveWhatTheyShouldInTheWorld", in_the_world});
  cases.push_back({"KindsGiveWhatTheyShouldInAProcessSet", in_a_process_set});
  cases.push_back({"KindsLeaveJoinedRanksOut", leave_joined_ranks_out});
  cases.push_back({"KindsLeaveJoinedRanksOfAProcessSetOut", leave_joined_ranks_of_a_set_out});
}

}  // namespace hvd::engine::test
