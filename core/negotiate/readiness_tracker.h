#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/topology.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/process_sets.h"
#include "core/negotiate/response_cache.h"
#include "core/negotiate/stall/stall_monitor.h"

namespace hvd::engine {

// What one node of the tree has heard. Counts announcements by name, whatever form they have (slot
// or request), until all have announced who are expected to: the ranks at and below this node that
// belong to the name's process set and have not joined.
class ReadinessTracker {
 public:
  // Who reports to this node: itself, then its children in the order of the tree.
  using Reporter = std::size_t;
  static constexpr Reporter kSelf = 0;
  // Empty when `child` is none of this node's.
  std::optional<Reporter> reporter_of(Rank child) const;

  ReadinessTracker(const Tree& tree, const ResponseCache& cache, const ProcessSets& sets);

  // What becomes complete is appended to `complete` (slots or names) and is forgotten here. What
  // the reporter sent before it applied the entry that cleared the slot or name is dropped.
  void add(SlotNumber slot, Reporter from, std::uint64_t applied, Announcement& complete);
  void add(const Variants& variants, Reporter from, std::uint64_t applied, Announcement& complete);
  // What comes with a slot; before the slot.
  void add(EagerValues&& eager, std::uint64_t applied);
  // A child says that this name is incomplete below it. False when that is void.
  bool add(const MissingRanks& absence, Reporter from, std::uint64_t applied);
  // Log entry `number` added the set or changed who is expected in it. What waited for no other
  // rank is appended to `complete`.
  void recount(ProcessSetId set, std::uint64_t number, Announcement& complete);

  // True when an announcement of `slot` by a rank that had applied that much is void.
  bool is_void(SlotNumber slot, std::uint64_t applied) const;
  bool is_void(const std::string& name, std::uint64_t applied) const;

  // Log entry `number` evicted the name's slot: forgets what was heard about it.
  void clear(const std::string& name, std::uint64_t number);
  // Child `from` had applied this much; older entries of the log are of no further interest.
  void child_applied(Reporter from, std::uint64_t applied);

  // -- for stall reports
  bool idle() const { return waiting_ == 0; }
  // Names that some ranks at or below this node announced and others did not.
  std::vector<Waiting> waiting() const;
  // Ranks at or below this node that have not announced `name`, as far as is known here.
  std::vector<Rank> missing(const std::string& name) const;

  // The process set of a name that is known or waits; else none.
  std::optional<ProcessSetId> set_of(const std::string& name) const;

  // Ranks at and below a reporter that are expected in the set.
  int weight(Reporter from, ProcessSetId set) const {
    return set < expected_.size() ? expected_[set].weight[from] : 0;
  }

 private:
  struct Count {
    std::size_t arrived = 0;
    std::uint64_t round = 0;  // 0 = nothing heard
    ProcessSetId set = kWorldSet;
    bool in_full = false;  // a rank announced a request: `variants` counts all ranks
    Variants variants;
    std::vector<std::uint64_t> bits;  // who reported
    std::vector<EagerValues> eager;   // what came with the slot
  };

  // Whom names of one process set wait for.
  struct Expected {
    std::vector<int> weight;   // by reporter
    std::vector<Rank> lowest;  // by reporter, if its weight is not 0
    std::size_t reporters = 0;
    std::uint64_t since = 0;  // log entry
  };

  const std::vector<Rank>& below(Reporter from) const;
  bool has(const Count& count, Reporter from) const;
  void open(Count& count, ProcessSetId set);
  bool is_complete(const Count& count) const {
    return count.arrived == expected_[count.set].reporters;
  }
  // False when `from` has reported already.
  bool arrive(Count& count, Reporter from, ProcessSetId set);
  void complete_slot(SlotNumber slot, Announcement& complete);
  void complete_in_full(Count& count, Announcement& complete);
  void reset(Count& count);
  void count_in_full(Count& count, const Request& request);
  Count& count_of(SlotNumber slot);
  const Count* find(const std::string& name) const;
  // How long a child has waited for `name`; zero = no child said so.
  Duration held_below(const std::string& name) const;
  void forget_old_clears();

  const Tree& tree_;
  const ResponseCache& cache_;
  const ProcessSets& sets_;
  const std::vector<Rank> self_;
  const std::size_t reporters_;
  std::vector<Expected> expected_;  // by set
  std::vector<Count> slots_;
  std::unordered_map<std::string, Count> names_;  // names without a slot
  std::map<std::string, std::map<Reporter, MissingRanks>> absences_;
  std::vector<std::uint64_t> slot_cleared_;
  std::unordered_map<std::string, std::uint64_t> name_cleared_;
  std::size_t forget_at_ = 64;  // size of name_cleared_ that is worth a sweep
  std::vector<std::uint64_t> child_applied_;
  std::uint64_t rounds_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace hvd::engine
