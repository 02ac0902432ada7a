#include "ops/host/arguments.h"

#include <algorithm>
#include <string>

namespace hvd::engine::host {
namespace {

void check_reduction_of(DType dtype, const Reduction& reduction) {
  if (reduction.op == ReduceOp::kAverage) {
    throw InvalidArgumentError("reduction Average: a port takes the sum with a postscale");
  }
  check_reduction(dtype, reduction);
}

void check_counts(const char* what, std::size_t counts, int size) {
  if (counts == static_cast<std::size_t>(size)) return;
  throw InvalidArgumentError(what, ": ", counts, " counts for ", size, " ranks");
}

void check_numels(const char* what, std::int64_t counted, std::int64_t there) {
  if (counted == there) return;
  throw InvalidArgumentError(what, ": counts of ", counted, " elements for a tensor of ", there);
}

std::string described(const TensorView& tensor) {
  return str_cat(tensor.numel, " elements of ", tensor.dtype);
}

}  // namespace

void check_all_reduce(std::span<const Slice> slices, const Reduction& reduction) {
  const bool packs = reduction.wire != WireFormat::kNone || reduction.op == ReduceOp::kAdasum;
  for (const Slice& slice : slices) {
    check_reduction_of(slice.input.dtype, reduction);
    if (!slice.place || !packs) continue;
    throw InvalidArgumentError("all_reduce: ", described(slice.input),
                               " cannot be reduced in place in wire format ",
                               name_of(reduction.wire), " by ", name_of(reduction.op));
  }
}

void check_reduce_scatter(std::span<const ScatterSlice> slices, const Reduction& reduction,
                          Rank rank, int size) {
  if (reduction.wire != WireFormat::kNone) {
    throw InvalidArgumentError("reduce_scatter: no wire format ", name_of(reduction.wire));
  }
  for (const ScatterSlice& slice : slices) {
    check_reduction_of(slice.input.dtype, reduction);
    check_counts("reduce_scatter", slice.numel_of.size(), size);
    std::int64_t sum = 0;
    for (const std::int64_t numel : slice.numel_of) sum += numel;
    check_numels("reduce_scatter", sum, slice.input.numel);
    check_numels("reduce_scatter", slice.numel_of[static_cast<std::size_t>(rank)],
                 slice.output.numel);
  }
}

void check_all_gather(std::span<const GatherSlice> slices, int size) {
  for (const GatherSlice& slice : slices) check_counts("all_gather", slice.bytes_of.size(), size);
}

void check_exchange(std::size_t mine, std::size_t all, int size) {
  if (all == mine * static_cast<std::size_t>(size)) return;
  throw InvalidArgumentError("exchange of ", mine, " numbers among ", size,
                             " ranks, with room for ", all);
}

void check_all_to_all(std::span<const ExchangeSlice> slices, Rank rank, int size) {
  for (const ExchangeSlice& slice : slices) {
    check_counts("all_to_all", slice.bytes_to.size(), size);
    check_counts("all_to_all", slice.bytes_from.size(), size);
    const std::size_t to = slice.bytes_to[static_cast<std::size_t>(rank)];
    const std::size_t from = slice.bytes_from[static_cast<std::size_t>(rank)];
    if (to == from) continue;
    throw InvalidArgumentError("all_to_all: rank ", rank, " sends itself ", to,
                               " bytes and expects ", from);
  }
}

void check_rank(const char* what, Rank rank, int size) {
  if (rank >= 0 && rank < size) return;
  throw InvalidArgumentError(what, " ", rank, " in a world of ", size, " ranks");
}

Rank check_subset(std::span<const Rank> ranks, Rank mine, int size) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    check_rank("a subset with rank", ranks[i], size);
    if (i == 0 || ranks[i - 1] < ranks[i]) continue;
    throw InvalidArgumentError("a subset's ranks do not ascend: ", ranks[i - 1], ", ", ranks[i]);
  }
  const auto found = std::find(ranks.begin(), ranks.end(), mine);
  if (found == ranks.end()) {
    throw InvalidArgumentError("rank ", mine, " is not in the subset it makes");
  }
  return static_cast<Rank>(found - ranks.begin());
}

Status transfer_mismatch(const TensorView& sent, const TensorView& expected, Rank from, Rank to,
                         int tag) {
  if (sent.dtype == expected.dtype && sent.numel == expected.numel) return {};
  return {StatusCode::kMismatch,
          str_cat("transfer with tag ", tag, ": rank ", from, " sends ", described(sent), ", rank ",
                  to, " expects ", described(expected))};
}

}  // namespace hvd::engine::host
