#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "test/support/collective_cases.h"
#include "test/support/reduce_ops.h"

namespace hvd::engine::test {
namespace {

using Counts = std::vector<std::int64_t>;

Counts counts(int size, const std::function<std::int64_t(Rank)>& of) {
  Counts all;
  for (Rank rank = 0; rank < size; ++rank) all.push_back(of(rank));
  return all;
}

std::int64_t total(const Counts& numel_of) {
  return std::accumulate(numel_of.begin(), numel_of.end(), std::int64_t{0});
}

// Where a rank's part begins.
std::int64_t begin_of(const Counts& numel_of, Rank rank) {
  return std::accumulate(numel_of.begin(), numel_of.begin() + rank, std::int64_t{0});
}

TypedArray part_of(const TypedArray& whole, const Counts& numel_of, Rank rank) {
  TypedArray part(whole.dtype(), numel_of[static_cast<std::size_t>(rank)]);
  const std::size_t element = size_of(whole.dtype());
  if (part.bytes() == 0) return part;
  std::memcpy(part.data(),
              static_cast<const std::byte*>(whole.data()) +
                  static_cast<std::size_t>(begin_of(numel_of, rank)) * element,
              part.bytes());
  return part;
}

// The arrays of a fused reduce-scatter.
class Scattering {
 public:
  Scattering(Rank rank) : rank_(rank) {}

  void add(const TypedArray& input, const Counts& numel_of, bool in_place) {
    const std::int64_t mine = numel_of[static_cast<std::size_t>(rank_)];
    TypedArray& from = inputs_.emplace_back(input);
    TypedArray& apart = outputs_.emplace_back(input.dtype(), in_place ? 0 : mine);
    TensorView to = apart.view();
    if (in_place) {
      auto* const whole = static_cast<std::byte*>(from.data());
      const auto first = static_cast<std::size_t>(begin_of(numel_of, rank_));
      to = {whole + first * size_of(input.dtype()), mine, input.dtype(), {}};
    }
    slices_.push_back({from.view(), to, numel_of});
    in_place_.push_back(in_place);
  }

  void run(Collective& collective, const Reduction& reduction) {
    const auto operation = collective.reduce_scatter(slices_, reduction);
    finish(*operation, collective);
  }

  const TypedArray& input(std::size_t i) const { return inputs_[i]; }
  TypedArray output(std::size_t i) const {
    return in_place_[i] ? part_of(inputs_[i], slices_[i].numel_of, rank_) : outputs_[i];
  }

 private:
  Rank rank_;
  std::deque<TypedArray> inputs_;
  std::deque<TypedArray> outputs_;
  std::vector<ScatterSlice> slices_;
  std::vector<bool> in_place_;
};

// Uneven, with zeros, equal, all at one rank, and none at all.
std::vector<Counts> many_counts(int size) {
  return {counts(size, [](Rank rank) { return rank % 3 == 1 ? 0 : 37 + rank * 11; }),
          counts(size, [](Rank) { return 16; }),
          counts(size, [&](Rank rank) { return rank == size - 1 ? 201 : 0; }),
          counts(size, [](Rank) { return 0; })};
}

void scatters_exactly(DType dtype, ReduceOp op, Collective& collective, Rank rank, int size) {
  const std::vector<Counts> parts = many_counts(size);
  Scattering scattering(rank);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    scattering.add(contributions(op, dtype, rank, total(parts[i])), parts[i], i % 2 == 1);
  }
  scattering.run(collective, {.op = op});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TypedArray whole = combination(op, dtype, size, total(parts[i]));
    expect_same(scattering.output(i), part_of(whole, parts[i], rank),
                std::string(name_of(op)) + ", slice " + std::to_string(i));
  }
  expect_same(scattering.input(0), contributions(op, dtype, rank, total(parts[0])), "the input");
}

void scatters_every_op(Collective& collective, Rank rank, int size) {
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : elementwise_ops(dtype)) {
      scatters_exactly(dtype, op, collective, rank, size);
    }
  }
}

void reduces_to_every_root(Collective& collective, Rank rank, int size) {
  for (Rank root = 0; root < size; ++root) {
    const Counts at_root = counts(size, [&](Rank each) { return each == root ? 307 : 0; });
    Scattering scattering(rank);
    scattering.add(contributions(ReduceOp::kSum, DType::kI32, rank, 307), at_root, false);
    scattering.run(collective, {});
    const TypedArray whole = combination(ReduceOp::kSum, DType::kI32, size, 307);
    expect_same(scattering.output(0), part_of(whole, at_root, rank), "the root's sum");
  }
}

// Whoever computes it: rounding, scales and the dot products of Adasum are those of all_reduce.
void is_a_part_of_the_all_reduce(Collective& collective, Rank rank, int size) {
  const Counts parts = counts(size, [](Rank each) { return 101 + each % 2 * 50; });
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAdasum}) {
      const Reduction reduction = {.op = op, .prescale = 0.7, .postscale = 1.0 / 3.0};
      const TypedArray input = wild_numbers(dtype, rank, total(parts));
      Scattering scattering(rank);
      scattering.add(input, parts, false);
      scattering.run(collective, reduction);
      Batch batch;
      batch.add(input);
      run_all_reduce(collective, batch, reduction);
      expect_same(scattering.output(0), part_of(batch.output(0), parts, rank),
                  std::string(name_of(op)) + " in part");
    }
  }
}

void scatters_nothing(Collective& collective, Rank rank, int size) {
  Scattering none(rank);
  none.run(collective, {});
  const auto nothing = counts(size, [](Rank) { return 0; });
  const TensorView view = {nullptr, 0, DType::kF32, {}};
  const ScatterSlice slice = {view, view, nothing};
  const auto operation = collective.reduce_scatter({&slice, 1}, {});
  finish(*operation, collective);
}

void scatters_several_mebibytes(Collective& collective, Rank rank, int size) {
  const std::vector<Counts> parts = {
      counts(size, [](Rank each) { return 600'000 + each * 100'003; }),
      counts(size, [&](Rank each) { return each == size - 1 ? 500'009 : 0; })};
  Scattering scattering(rank);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    scattering.add(contributions(ReduceOp::kSum, DType::kF32, rank, total(parts[i])), parts[i],
                   i % 2 == 0);
  }
  scattering.run(collective, {});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TypedArray whole = combination(ReduceOp::kSum, DType::kF32, size, total(parts[i]));
    expect_same(scattering.output(i), part_of(whole, parts[i], rank), "a large part");
  }
}

}  // namespace

void add_scatter_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"ReduceScatterOfEveryOpAndDType", scatters_every_op});
  cases.push_back({"ReduceScatterToEveryRoot", reduces_to_every_root});
  cases.push_back({"ReduceScatterIsAPartOfTheAllReduce", is_a_part_of_the_all_reduce});
  cases.push_back({"ReduceScatterOfNothing", scatters_nothing});
  cases.push_back({"ReduceScatterOfSeveralMebibytes", scatters_several_mebibytes});
}

}  // namespace hvd::engine::test
