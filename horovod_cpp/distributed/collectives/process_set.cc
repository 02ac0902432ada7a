#include "horovod_cpp/distributed/collectives/process_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/world.h"

namespace hvd {

ProcessSet::ProcessSet(const std::shared_ptr<World>& world, ProcessSetId id,
                       std::vector<Rank> ranks)
    : members_(std::make_shared<const Members>(Members{world, id, std::move(ranks)})) {}

std::shared_ptr<const ProcessSet::Members> ProcessSet::members() const {
  return members_ != nullptr ? members_ : hvd::world()->global_process_set().members_;
}

ProcessSet ProcessSet::resolved() const {
  return members_ != nullptr ? *this : hvd::world()->global_process_set();
}

ProcessSetId ProcessSet::id() const {
  return members_ != nullptr ? members_->id : members()->id;
}

std::vector<Rank> ProcessSet::ranks() const {
  return members()->ranks;
}

int ProcessSet::size() const {
  return static_cast<int>(members()->ranks.size());
}

int ProcessSet::rank() const {
  const auto all = members();
  const Rank mine = world()->topology().rank;
  const auto found = std::lower_bound(all->ranks.begin(), all->ranks.end(), mine);
  if (found != all->ranks.end() && *found == mine) {
    return static_cast<int>(found - all->ranks.begin());
  }
  throw InvalidArgumentError("rank " + std::to_string(mine) + " is not in process set " +
                             std::to_string(all->id) + ", which has " + describe_ranks(all->ranks));
}

bool ProcessSet::included() const {
  const auto all = members();
  return std::find(all->ranks.begin(), all->ranks.end(), world()->topology().rank) !=
         all->ranks.end();
}

std::shared_ptr<World> ProcessSet::world() const {
  if (members_ == nullptr) return hvd::world();
  if (auto alive = members_->world.lock()) return alive;
  throw AbortedError("the job of process set " + std::to_string(members_->id) +
                     " has ended on this rank");
}

bool operator==(const ProcessSet& a, const ProcessSet& b) {
  return a.id() == b.id() && a.world() == b.world();
}

ProcessSet global_process_set() {
  return world()->global_process_set();
}

std::vector<ProcessSetId> process_set_ids() {
  return world()->process_set_ids();
}

ProcessSet process_set(ProcessSetId id) {
  return world()->process_set(id);
}

ProcessSet add_process_set(std::vector<Rank> ranks) {
  return world()->add_process_set(std::move(ranks));
}

bool remove_process_set(const ProcessSet& set) {
  return set.world()->remove_process_set(set);
}

}  // namespace hvd
