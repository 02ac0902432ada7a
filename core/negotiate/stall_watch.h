#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/sequencer.h"
#include "core/negotiate/stall/stall_monitor.h"
#include "core/negotiate/stall_diagnosis.h"

namespace hvd::engine {

// Notices waits of one rank that last too long: names that some have not submitted, of which others
// than rank 0 tell upwards; on rank 0 batches and joins besides, and what is to be done about all
// of them; on others a parent that is silent. Has no clock.
class StallWatch {
 public:
  // What this rank has to wait for, besides what the readiness tracker knows.
  struct Load {
    std::span<const RunningBatch> batches;  // rank 0: of all ranks
    bool waits = false;                     // this rank does, for others
  };
  // What is to be done.
  struct Findings {
    bool ask = false;                     // rank 0: all ranks, where they are
    bool probe = false;                   // the parent, whether it is there
    std::vector<std::string> reports;     // rank 0: for the user
    std::optional<Status> hopeless;       // rank 0: stop the job
    std::optional<Status> parent_silent;  // stop it, without rank 0 if that is the parent
  };

  // The arguments outlive it.
  StallWatch(const Tree& tree, const ReadinessTracker& readiness, const ProcessSets& sets,
             const NegotiationSettings& settings);

  // Time passes; `absences` gets what has to be told upwards.
  Findings tick(TimePoint now, const Load& load, std::vector<MissingRanks>& absences);
  std::optional<TimePoint> next_deadline(const Load& load) const;

  // The settings have changed.
  void set_limits();
  // A message of the parent came.
  void heard_parent() { parent_.heard(); }
  // A node below has waited for `name` so long that it told: so has this node, whether it knew the
  // name or not.
  void tell_absence(const std::string& name, Duration held, std::vector<MissingRanks>& absences);
  // The log says that a rank joined: what was told before does not count any more.
  void joined(ProcessSetId set);
  // Something ran in the set. The clock of ranks that wait for the others to join restarts.
  void note_progress(ProcessSetId set);

  StallDiagnosis& diagnosis() { return diagnosis_; }

 private:
  bool root() const { return tree_.rank == 0; }
  // One rank alone watches its device (core/negotiate/stall/unfinished.h).
  bool watches(const Load& load) const { return root() && tree_.size > 1 && !load.batches.empty(); }
  void check_names(std::vector<MissingRanks>& absences, Findings& findings);
  void check_batches(std::span<const RunningBatch> batches, Findings& findings);
  void check_joins(Findings& findings);
  void check_parent(bool waits, Findings& findings);
  // `describe` gets waits of one report, of which the first has lasted longest.
  void report(const StallFindings& found, Findings& findings, const auto& describe);
  void warn(Duration held, const StallReport& report, Findings& findings);

  const Tree& tree_;
  const ReadinessTracker& readiness_;
  const ProcessSets& sets_;
  const NegotiationSettings& settings_;
  StallDiagnosis diagnosis_;
  StallMonitor names_;
  StallMonitor batches_;  // rank 0 only
  StallMonitor joins_;    // rank 0 only
  ParentWatch parent_;    // not on rank 0
  TimePoint now_{};
  std::vector<std::uint64_t> progress_;  // rank 0, by set: changes when something ran
  std::uint64_t progress_count_ = 0;
  std::map<std::string, std::vector<Rank>>
      last_reported_missing_;  // others: who is missing, as last told upwards
  std::string last_report_;    // rank 0: what the last one said about ranks
  TimePoint last_report_at_{};
};

}  // namespace hvd::engine
