#include "ops/host/rank_set.h"

#include <algorithm>
#include <numeric>

#include "core/base/status.h"

namespace hvd::host {

RankSet::RankSet(Rank mine, int world_size)
    : world_ranks_(static_cast<std::size_t>(world_size)), rank_(static_cast<std::size_t>(mine)) {
  std::iota(world_ranks_.begin(), world_ranks_.end(), 0);
}

RankSet::RankSet(std::shared_ptr<const RankSet> parent, std::uint32_t number, Rank mine,
                 std::vector<Rank> world_ranks)
    : parent_(std::move(parent)),
      key_(subset_key(parent_->key_, number)),
      world_ranks_(std::move(world_ranks)),
      rank_(
          static_cast<std::size_t>(std::ranges::find(world_ranks_, mine) - world_ranks_.begin())) {}

bool RankSet::is_aborted() const noexcept {
  for (const RankSet* set = this; set != nullptr; set = set->parent_.get()) {
    if (set->aborted_) return true;
  }
  return false;
}

void RankSet::throw_if_aborted() const {
  if (is_aborted()) throw AbortedError("the collectives of this rank were aborted");
}

}  // namespace hvd::host
