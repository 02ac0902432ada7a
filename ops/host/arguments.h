#pragma once

#include <span>

#include "core/base/status.h"
#include "core/ports/collective.h"

// What every Collective refuses before it starts anything (core/ports/collective.h). All throw
// InvalidArgumentError that names the values.
namespace hvd::engine::host {

void check_all_reduce(std::span<const Slice> slices, const Reduction& reduction);
void check_reduce_scatter(std::span<const ScatterSlice> slices, const Reduction& reduction,
                          Rank rank, int size);
void check_all_gather(std::span<const GatherSlice> slices, int size);
// An exchange of `mine` numbers with room for `all`.
void check_exchange(std::size_t mine, std::size_t all, int size);
void check_all_to_all(std::span<const ExchangeSlice> slices, Rank rank, int size);

// `what` says what the rank is to the call: "broadcast from root".
void check_rank(const char* what, Rank rank, int size);

// `ranks` ascend and are among those of a Collective of `size` ranks, `mine` is one of them.
// Returns its number there.
Rank check_subset(std::span<const Rank> ranks, Rank mine, int size);

// What both ends of a transfer throw: kMismatch when they differ in dtype or numel, else ok.
Status transfer_mismatch(const TensorView& sent, const TensorView& expected, Rank from, Rank to,
                         int tag);

}  // namespace hvd::engine::host
