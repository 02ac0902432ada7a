#include "core/negotiate/process_sets.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "core/base/topology.h"

namespace hvd::engine {

ProcessSets::ProcessSets(int world_size) {
  Set& world = sets_.emplace_back();
  world.ranks.resize(static_cast<std::size_t>(world_size));
  std::iota(world.ranks.begin(), world.ranks.end(), 0);
  reset_joins(world);
}

void ProcessSets::reset_joins(Set& set) {
  set.states.assign(static_cast<std::size_t>(set.ranks.back()) + 1, State::kOutside);
  for (const Rank rank : set.ranks) set.states[static_cast<std::size_t>(rank)] = State::kActive;
  joins_ -= std::exchange(set.joined, 0);
  set.divisor = static_cast<int>(set.ranks.size());
}

ProcessSetId ProcessSets::add(const std::vector<Rank>& ranks) {
  Set& set = sets_.emplace_back();
  set.ranks = ranks;
  reset_joins(set);
  return end() - 1;
}

void ProcessSets::remove(ProcessSetId set) {
  joins_ -= sets_[set].joined;
  sets_[set] = {};
}

bool ProcessSets::join(ProcessSetId set, Rank rank, bool joins_average) {
  Set& joined = sets_[set];
  joined.states[static_cast<std::size_t>(rank)] = State::kJoined;
  if (!joins_average) --joined.divisor;
  ++joins_;
  if (static_cast<std::size_t>(++joined.joined) < joined.ranks.size()) return false;
  reset_joins(joined);
  return true;
}

std::string fault_of(const Request& request, const ProcessSets& sets) {
  if (!sets.known(request.set)) return "there is no " + describe_set(request.set);
  if (needs_root(request.kind) && !sets.has(request.set, request.root)) {
    return "root rank " + std::to_string(request.root) + " is not in " + describe_set(request.set) +
           ", which has " + describe_ranks(sets.ranks(request.set));
  }
  if (!std::isfinite(request.prescale) || !std::isfinite(request.postscale)) {
    return "a scale factor is not finite";
  }
  if (request.joins_average && request.kind != CollectiveKind::kJoin) {
    return "only a join can leave averages as they are";
  }
  if (request.flagged && request.kind != CollectiveKind::kAllreduce) {
    return "only an allreduce can be flagged";
  }
  if (request.kind == CollectiveKind::kMakeArena &&
      (request.shapes.size() != 1 || request.shapes.front().size() != 1)) {
    return "an arena has one size";
  }
  const std::string fault = fault_of_set_change(request, sets.world_size());
  if (!fault.empty() || request.kind != CollectiveKind::kRemoveSet) return fault;
  return sets.known(removed_set(request)) ? ""
                                          : "there is no " + describe_set(removed_set(request));
}

std::string fault_of_set_change(const Request& request, int world_size) {
  if (!changes_sets(request.kind)) return "";
  if (request.set != kWorldSet) return "process sets are added and removed by the world";
  const std::vector<std::int32_t>& numbers = request.numbers;
  if (request.kind == CollectiveKind::kRemoveSet) {
    if (numbers.size() != 1) return "the removal of " + std::to_string(numbers.size()) + " sets";
    if (numbers.front() < 0) return "there is no process set " + std::to_string(numbers.front());
    return removed_set(request) == kWorldSet ? "the world cannot be removed" : "";
  }
  if (numbers.empty()) return "a process set has at least one rank";
  if (std::ranges::adjacent_find(numbers, std::greater_equal<>()) != numbers.end()) {
    return "the ranks " + to_string(Shape(numbers.begin(), numbers.end())) + " are not ascending";
  }
  if (numbers.front() >= 0 && numbers.back() < world_size) return "";
  const Rank outside = numbers.front() < 0 ? numbers.front() : numbers.back();
  return "rank " + std::to_string(outside) + " is not in a world of " + std::to_string(world_size);
}

std::string describe_set(ProcessSetId set) {
  return set == kWorldSet ? "the world" : "process set " + std::to_string(set);
}

}  // namespace hvd::engine
