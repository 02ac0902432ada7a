#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/negotiate/decision.h"
#include "core/negotiate/process_sets.h"
#include "core/negotiate/response_cache.h"
#include "core/negotiate/submissions.h"

namespace hvd::engine {

// Whether a decision, as a whole, fits what this rank knows; asked before any of it is applied.
class DecisionCheck {
 public:
  DecisionCheck(Rank rank, const ResponseCache& cache, const ProcessSets& sets,
                const Submissions& submissions)
      : rank_(rank), cache_(cache), applied_sets_(sets), submissions_(submissions) {}

  // Throws PeerLostError when it does not fit.
  void operator()(const Decision& decision);

 private:
  // A slot as the steps so far leave it; no request = it is free.
  struct View {
    const Request* request = nullptr;
    bool once = false;
    bool pending = false;  // this rank submitted it as the slot
  };
  View view(SlotNumber slot) const;

  void check(const Decision& decision, const DefineSlot& step);
  void check(const Decision& decision, const RunSlots& step);
  void check(const Decision& decision, const EvictSlot& step);
  void check(const Decision& decision, const RejectName& step);
  void check(const Decision& decision, const JoinRank& step);
  void check(const Decision&, const auto&) {}  // what fits always

  void check_member(SlotNumber slot, const FusionKey& key, bool expected);
  void change_sets(const Request& request);
  bool pending(SlotNumber slot, const std::string& name) const;
  // As the steps so far leave them.
  const ProcessSets& sets() const { return changed_sets_ ? *changed_sets_ : applied_sets_; }
  ProcessSets& changed_sets();

  const Rank rank_;
  const ResponseCache& cache_;
  const ProcessSets& applied_sets_;
  const Submissions& submissions_;
  // About the decision at hand; kept for their storage.
  std::unordered_map<SlotNumber, View> changes_;
  std::optional<ProcessSets> changed_sets_;
  std::unordered_set<std::string_view> rejected_;
  std::size_t bound_ = 0;           // slots that are or were defined are below it
  std::vector<std::uint64_t> ran_;  // by slot: the last check that saw it run
  std::uint64_t number_ = 0;
};

}  // namespace hvd::engine
