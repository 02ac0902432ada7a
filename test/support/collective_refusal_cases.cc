#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

constexpr ReduceOp kAllOps[] = {ReduceOp::kAverage, ReduceOp::kSum,  ReduceOp::kAdasum,
                                ReduceOp::kMin,     ReduceOp::kMax,  ReduceOp::kProduct,
                                ReduceOp::kBitAnd,  ReduceOp::kBitOr};

bool is_integer_or_bool(DType dtype) {
  return !is_floating(dtype) && !is_complex(dtype);
}

// What the port says of op and dtype.
bool has_meaning(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kAverage:
      return false;
    case ReduceOp::kSum:
    case ReduceOp::kProduct:
      return true;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return !is_complex(dtype);
    case ReduceOp::kAdasum:
      return is_floating(dtype);
    default:
      return is_integer_or_bool(dtype);
  }
}

// All ranks are refused, at the call; nothing was started, so that the next operation is served.
void expect_refused(Collective& collective, int size, DType dtype, const Reduction& reduction) {
  Batch batch;
  batch.add(TypedArray(dtype, size));
  TypedArray input(dtype, size);
  TypedArray output(dtype, 1);
  const ScatterSlice part = {input.view(), output.view(),
                             std::vector<std::int64_t>(static_cast<std::size_t>(size), 1)};
  const std::string what = std::string(name_of(reduction.op)) + " of " +
                           std::string(name_of(dtype)) + " as " +
                           std::string(name_of(reduction.wire));
  EXPECT_THROW(collective.all_reduce(batch.slices(), reduction), InvalidArgumentError) << what;
  EXPECT_THROW(collective.reduce_scatter({&part, 1}, reduction), InvalidArgumentError) << what;
}

void expect_still_works(Collective& collective, Rank rank, int size) {
  Batch batch;
  batch.add(contributions(ReduceOp::kSum, DType::kI32, rank, 50));
  run_all_reduce(collective, batch);
  expect_same(batch.output(0), combination(ReduceOp::kSum, DType::kI32, size, 50), "what follows");
}

void refuses_ops_without_meaning(Collective& collective, Rank rank, int size) {
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : kAllOps) {
      if (!has_meaning(op, dtype)) expect_refused(collective, size, dtype, {.op = op});
    }
  }
  expect_refused(collective, size, DType::kBool, {.prescale = 2});
  expect_refused(collective, size, DType::kBool, {.op = ReduceOp::kMax, .postscale = 0.5});
  expect_still_works(collective, rank, size);
}

void refuses_wires_without_meaning(Collective& collective, Rank rank, int size) {
  for (const WireFormat wire : {WireFormat::kF16, WireFormat::kBF16, WireFormat::kInt8}) {
    for (const DType dtype : kAllDTypes) {
      if (dtype == DType::kF32 || dtype == DType::kF64) continue;
      expect_refused(collective, size, dtype, {.wire = wire});
    }
    expect_refused(collective, size, DType::kF32, {.op = ReduceOp::kMax, .wire = wire});
    expect_refused(collective, size, DType::kF32, {.op = ReduceOp::kAdasum, .wire = wire});
    TypedArray input(DType::kF32, size);
    TypedArray output(DType::kF32, 1);
    const ScatterSlice part = {input.view(), output.view(),
                               std::vector<std::int64_t>(static_cast<std::size_t>(size), 1)};
    EXPECT_THROW(collective.reduce_scatter({&part, 1}, {.wire = wire}), InvalidArgumentError);
  }
  expect_still_works(collective, rank, size);
}

void refuses_counts_that_do_not_fit(Collective& collective, Rank rank, int size) {
  TypedArray array(DType::kF32, 12);
  const auto ranks = static_cast<std::size_t>(size);
  const auto scatter = [&](std::vector<std::int64_t> numel_of) {
    const ScatterSlice slice = {array.view(), array.view(), std::move(numel_of)};
    EXPECT_THROW(collective.reduce_scatter({&slice, 1}, {}), InvalidArgumentError);
  };
  scatter(std::vector<std::int64_t>(ranks, 13));
  scatter(std::vector<std::int64_t>(ranks + 1, 0));
  const std::vector<std::size_t> none(ranks);
  for (const auto& bytes_to : {std::vector<std::size_t>(ranks + 1), std::vector(ranks, ranks)}) {
    const ExchangeSlice exchange = {array.data(), array.data(), bytes_to, none};
    EXPECT_THROW(collective.all_to_all({&exchange, 1}), InvalidArgumentError);
  }
  const GatherSlice gather = {array.data(), array.data(), std::vector<std::size_t>(ranks + 1)};
  EXPECT_THROW(collective.all_gather({&gather, 1}), InvalidArgumentError);
  expect_still_works(collective, rank, size);
}

void refuses_ranks_that_are_not_there(Collective& collective, Rank rank, int size) {
  TypedArray array(DType::kF32, 2);
  for (const Rank nobody : {-1, size}) {
    EXPECT_THROW(collective.broadcast({}, nobody), InvalidArgumentError);
    EXPECT_THROW(collective.send(array.view(), nobody, 0), InvalidArgumentError);
    EXPECT_THROW(collective.receive(array.view(), nobody, 0), InvalidArgumentError);
    const Rank pair[] = {rank, nobody};
    EXPECT_THROW(collective.subset(700, pair), InvalidArgumentError);
  }
  const Rank twice[] = {rank, rank};
  EXPECT_THROW(collective.subset(701, twice), InvalidArgumentError);
  EXPECT_THROW(collective.subset(702, {}), InvalidArgumentError);
  if (size > 1) {
    const Rank others[] = {(rank + 1) % size};
    EXPECT_THROW(collective.subset(703, others), InvalidArgumentError);
  }
  expect_still_works(collective, rank, size);
}

}  // namespace

void add_refusal_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"RefusesOpsWithoutMeaning", refuses_ops_without_meaning});
  cases.push_back({"RefusesWireFormatsWithoutMeaning", refuses_wires_without_meaning});
  cases.push_back({"RefusesCountsThatDoNotFit", refuses_counts_that_do_not_fit});
  cases.push_back({"RefusesRanksThatAreNotThere", refuses_ranks_that_are_not_there});
}

}  // namespace hvd::engine::test
