#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/negotiate/effects.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/messages/request.h"
#include "core/negotiate/response_cache.h"

namespace hvd::engine {

// What this rank has submitted and has not run yet. A submission that is what its name's slot says
// is kept by slot; any other by name, with its request. Joins are kept apart: they have no name.
class Submissions {
 public:
  struct InFull {
    Ticket ticket = 0;
    std::uint64_t number = 0;  // counts submissions
    Request request;
  };
  struct Join {
    Ticket ticket = 0;
    bool joins_average = false;
    bool announced = false;
  };

  void add(SlotNumber slot, const Request& request, Ticket ticket);
  void add(const Request& request, Ticket ticket);

  // Whether announcing the slot, which is this request, says as much as announcing `submitted` in
  // full. What a slot packs may lie anywhere, but who moved must tell: all may have moved alike.
  bool stands_for(SlotNumber slot, const Request& request, const Request& submitted) const;

  bool has(SlotNumber slot) const { return slot < by_slot_.size() && by_slot_[slot].pending; }
  // Null when `name` is not pending by name.
  const InFull* find(const std::string& name) const;

  std::optional<Ticket> take(SlotNumber slot);
  std::optional<Ticket> take(const std::string& name);
  // The name has a slot now that says what was submitted.
  void bind_slot(const std::string& name, SlotNumber slot);
  // The slot is about to be redefined, for ranks that moved; what is pending here stays in it.
  void keep(SlotNumber slot, const Request& request);
  // The slot goes: from now on its submission is kept by name.
  void unbind_slot(SlotNumber slot, const Request& request);

  // -- by process set. A join is not counted.
  std::size_t pending_in(ProcessSetId set) const {
    return set < pending_in_.size() ? pending_in_[set] : 0;
  }
  // Its removal is pending.
  bool removes(ProcessSetId set) const {
    return std::find(removals_.begin(), removals_.end(), set) != removals_.end();
  }

  void join(const Request& request, Ticket ticket);
  const std::map<ProcessSetId, Join>& joins() const { return joins_; }
  // Joins whose set has nothing else pending here; each is given once.
  std::vector<Joining> take_joins(Rank rank);
  // Join of the set is over.
  Ticket end_join(ProcessSetId set);

  // -- for stall reports
  std::uint64_t count() const { return count_; }  // made so far
  std::size_t pending() const { return pending_; }
  // What is pending for longest.
  struct Pending {
    std::string name;          // empty = nothing is
    std::uint64_t number = 0;  // counts submissions
  };
  Pending longest_pending(const ResponseCache& cache) const;
  // What is known here of a RankStatus.
  RankStatus status(const ResponseCache& cache) const;

 private:
  struct BySlot {
    bool pending = false;
    ProcessSetId set = kWorldSet;
    Ticket ticket = 0;
    std::uint64_t number = 0;
    ArenaPlace told;  // where this rank's tensors lie, as the others heard last
  };
  void begin(ProcessSetId set);
  void end(ProcessSetId set);
  void erase(std::unordered_map<std::string, InFull>::iterator found);
  BySlot& place(SlotNumber slot);

  std::vector<BySlot> by_slot_;
  std::unordered_map<std::string, InFull> by_name_;
  std::vector<std::size_t> pending_in_;  // by set
  std::size_t pending_ = 0;
  std::uint64_t count_ = 0;
  std::string last_;  // name of the last one
  std::vector<ProcessSetId> removals_;
  std::map<ProcessSetId, Join> joins_;
  bool unannounced_ = false;  // some join may be
};

}  // namespace hvd::engine
