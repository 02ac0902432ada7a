#include "ops/shm/shm_set.h"

#include "ops/shm/transfer_link.h"

namespace hvd {
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
    : RankSet(shared->segment->rank(), shared->segment->ranks()),
      shared_(std::move(shared)),
      place_(DataSegment::kWorldPlace) {}

ShmSet::ShmSet(const std::shared_ptr<const ShmSet>& parent, std::uint32_t number,
               std::vector<Rank> members)
    : ShmSet(parent->shared_, parent, number, std::move(members)) {
  // What is thrown from here on runs the destructor, which leaves the set.
  shared_->settle_departures();
  if (rank() != 0) return;
  place_ = shared_->segment->give_place(key(), world_ranks());
  ring_others();
}

ShmSet::ShmSet(std::shared_ptr<ShmShared> shared, const std::shared_ptr<const ShmSet>& parent,
               std::uint32_t number, std::vector<Rank> members)
    : RankSet(parent, number, shared->segment->rank(), std::move(members)),
      shared_(std::move(shared)) {}

ShmSet::~ShmSet() {
  if (key() == host::kWorldKey) return;
  if (place()) {
    shared_->segment->leave_place(*place_, world_ranks());
  } else {
    shared_->departures.push_back({key(), world_ranks()});
  }
}

std::optional<ShmSet::Place> ShmSet::place() noexcept {
  if (!place_) place_ = segment().find_place(key());
  return place_;
}

void ShmSet::ring_others() const noexcept {
  for (std::size_t r = 0; r < size(); ++r) {
    if (r != rank()) ring(r);
  }
}

void ShmSet::abort() noexcept {
  RankSet::abort();
  segment().ring(segment().rank());
}

}  // namespace hvd
