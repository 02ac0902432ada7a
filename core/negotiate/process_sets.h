#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/topology.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {

// The process sets and who has joined in them, as the log says: equal on all ranks that have
// applied the same entries. Set 0 is the world.
class ProcessSets {
 public:
  explicit ProcessSets(int world_size);

  // The number of the new set: one more than that of the set before. `ranks` is ascending, not
  // empty, and of the world.
  ProcessSetId add(const std::vector<Rank>& ranks);
  void remove(ProcessSetId set);

  bool known(ProcessSetId set) const { return set < sets_.size() && !sets_[set].ranks.empty(); }
  // Numbers of sets, removed ones too, are below this.
  ProcessSetId end() const { return static_cast<ProcessSetId>(sets_.size()); }
  int world_size() const { return static_cast<int>(sets_[kWorldSet].ranks.size()); }

  // -- of known sets
  const std::vector<Rank>& ranks(ProcessSetId set) const { return sets_[set].ranks; }
  Rank lowest(ProcessSetId set) const { return sets_[set].ranks.front(); }
  // Any number may be asked for.
  bool has(ProcessSetId set, Rank rank) const { return state(set, rank) != State::kOutside; }
  // A rank of the set that has not joined: what all of them submitted is complete.
  bool expects(ProcessSetId set, Rank rank) const { return state(set, rank) == State::kActive; }
  bool joined(ProcessSetId set, Rank rank) const { return has(set, rank) && !expects(set, rank); }
  // Some rank has joined in some set and waits for others.
  bool anyone_joined() const { return joins_ > 0; }
  // How many ranks of the set have joined.
  int joined(ProcessSetId set) const { return sets_[set].joined; }
  // How many are expected.
  int active(ProcessSetId set) const {
    return static_cast<int>(sets_[set].ranks.size()) - sets_[set].joined;
  }
  // Ranks that averages divide by: those that have not joined, and those that joined as
  // `joins_average`.
  int divisor(ProcessSetId set) const { return sets_[set].divisor; }

  // A rank that was expected joins. True when it was the last: then no rank is joined any more.
  bool join(ProcessSetId set, Rank rank, bool joins_average);

 private:
  enum class State : std::uint8_t { kOutside, kActive, kJoined };
  struct Set {
    std::vector<Rank> ranks;    // none = removed
    std::vector<State> states;  // by rank of the world
    int joined = 0;
    int divisor = 0;
  };
  State state(ProcessSetId set, Rank rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return rank >= 0 && at < sets_[set].states.size() ? sets_[set].states[at] : State::kOutside;
  }
  void reset_joins(Set& set);

  std::vector<Set> sets_;
  int joins_ = 0;  // in all sets
};

// Why no rank may ask for this, e.g. "root rank 3 is not in process set 2"; empty when it is fine.
std::string fault_of(const Request& request, const ProcessSets& sets);

// The same of an addition or a removal, whatever sets there are; empty for other kinds.
std::string fault_of_set_change(const Request& request, int world_size);

// "process set 3", "the world".
std::string describe_set(ProcessSetId set);

}  // namespace hvd::engine
