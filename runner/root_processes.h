#pragma once

#include <sys/types.h>

#include <vector>

#include "core/base/unique_fd.h"
#include "runner/plan/launch_plan.h"

namespace hvd::runner {

// What hvdrun itself started: mpirun, or an agent a rank. When hvdrun dies they get SIGTERM.
class RootProcesses {
 public:
  // The first one reads `in`, the others nothing; all write to `out` and `err`. Throws
  // Error{kInternal} when one cannot be started.
  void start(const LaunchPlan& plan, int in, int out, int err);

  // What waitpid() said; false if it is none of these.
  bool note_end(pid_t pid, int status);
  // All of them have ended.
  bool ended() const { return running_.empty(); }
  // All have ended, or one of them has failed.
  bool over() const { return ended() || exit_code_ != 0; }
  // Of the first that failed, 128 + signal for a signal; 0 if none did.
  int exit_code() const { return exit_code_; }
  // To the process groups of those that run.
  void signal(int number) const;
  // Kills what they started in their sessions and left to hvdrun, their subreaper: mpirun's ssh has
  // a process group of its own. For a job of which no agent came.
  void kill_orphans() const;

 private:
  std::vector<pid_t> running_;
  std::vector<pid_t> sessions_;  // of all
  int exit_code_ = 0;
};

}  // namespace hvd::runner
