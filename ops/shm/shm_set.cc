#include "ops/shm/shm_set.h"

#include <algorithm>
#include <numeric>

#include "core/base/status.h"
#include "ops/host/set_key.h"
#include "ops/shm/transfer_link.h"

namespace hvd {
namespace {

std::vector<int> all_ranks(const DataSegment& segment) {
  std::vector<int> ranks(static_cast<std::size_t>(segment.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

ShmShared::ShmShared(std::unique_ptr<DataSegment> the_segment, ArenaFiles the_arenas)
    : segment(std::move(the_segment)),
      arenas(std::move(the_arenas)),
      transfers(std::make_unique<ShmTransferLink>(*segment)) {}

void ShmShared::settle_departures() noexcept {
  std::erase_if(departures, [this](const Departure& each) {
    const auto place = segment->find_place(each.key);
    if (place) segment->leave_place(*place, each.members);
    return place.has_value();
  });
}

ShmSet::ShmSet(std::shared_ptr<ShmShared> shared)
    : ShmSet(shared, nullptr, host::kWorldKey, all_ranks(*shared->segment)) {
  place_ = DataSegment::kWorldPlace;
}

ShmSet::ShmSet(std::shared_ptr<const ShmSet> parent, std::uint32_t number, std::vector<int> members)
    : ShmSet(parent->shared_, parent, host::subset_key(parent->key_, number), std::move(members)) {
  shared_->settle_departures();
  if (rank_ != 0) return;
  place_ = shared_->segment->give_place(key_, members_);
  ring_others();
}

ShmSet::ShmSet(std::shared_ptr<ShmShared> shared, std::shared_ptr<const ShmSet> parent,
               std::uint64_t key, std::vector<int> members)
    : shared_(std::move(shared)),
      parent_(std::move(parent)),
      key_(key),
      members_(std::move(members)) {
  const auto mine = std::find(members_.begin(), members_.end(), shared_->segment->rank());
  rank_ = static_cast<std::size_t>(mine - members_.begin());
}

ShmSet::~ShmSet() {
  if (key_ == host::kWorldKey) return;
  if (place()) {
    shared_->segment->leave_place(*place_, members_);
  } else {
    shared_->departures.push_back({key_, std::move(members_)});
  }
}

std::optional<ShmSet::Place> ShmSet::place() noexcept {
  if (!place_) place_ = segment().find_place(key_);
  return place_;
}

void ShmSet::ring_others() const noexcept {
  for (std::size_t r = 0; r < members_.size(); ++r) {
    if (r != rank_) ring(r);
  }
}

void ShmSet::abort() noexcept {
  aborted_ = true;
  segment().ring(segment().rank());
}

bool ShmSet::is_aborted() const noexcept {
  for (const ShmSet* set = this; set != nullptr; set = set->parent_.get()) {
    if (set->aborted_) return true;
  }
  return false;
}

void ShmSet::throw_if_aborted() const {
  if (is_aborted()) throw AbortedError("the collectives of this rank were aborted");
}

}  // namespace hvd
