#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "runner/plan/launch_plan.h"

namespace hvd::runner {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};
// Both ends close on exec. Throws Error{kInternal}.
Pipe make_pipe();
// A raw pseudo terminal: `write_end` is what a program writes to. A program that believes it
// writes to a terminal sends each line when it ends, not kilobytes later.
Pipe make_terminal();

void set_nonblocking(int fd);

struct ChildSpec {
  std::vector<std::string> argv;  // argv[0] is looked up in the PATH of `environment`
  Environment environment;
  std::string folder = {};  // "" = this process's
  int stdin_fd = -1;        // -1 = inherit
  int stdout_fd = -1;
  int stderr_fd = -1;
  int death_signal = 0;  // what the child gets when this process dies
};

struct ChildStart {
  pid_t pid = -1;
  int error = 0;           // errno when it could not be started
  bool in_folder = false;  // because of `folder`
};

// Starts a program in a session and process group of its own, with default signal handling.
ChildStart start_child(const ChildSpec& spec);

// Kills the children of this process, a subreaper, for which `which` holds, until none is left.
void kill_children(const std::function<bool(pid_t)>& which);

// Blocks the signals that `read_signal` returns: SIGCHLD, and of those that a program can handle
// all that this process does not ignore, except what a fault of its own raises and what the
// terminal sends to a reader in the background. SIGPIPE becomes an error code. Returns a signalfd.
UniqueFd watch_signals();
// SIGINT, SIGTERM, SIGHUP: their sender wants the job to end. The others are its programs'
// affair.
bool is_stop_signal(int signal);
// Readable while one of those is pending. After watch_signals().
UniqueFd watch_stop_signals();
// Blocks the others: for a process beside the one that watches signals.
void leave_signals_to_others();
// The next pending signal, or 0.
int read_signal(int fd);

// Appends what can be read now; false at the end of the stream. `limit` bounds one call.
bool read_available(int fd, std::string& out, std::size_t limit);

Environment current_environment();
// Those that this process may run on.
int usable_cores();
// The full path of an executable file named `name` in PATH, or empty. Folders are without symbolic
// links: Open MPI takes its prefix from the path of mpirun, and /bin/mpirun would leave it none.
std::string find_in_path(const std::string& name, const std::string& path);

// Copies this process's standard input into a pipe, after `first`, without ever waiting. A terminal
// is only read while this process is in its foreground.
class StdinPump {
 public:
  void connect(UniqueFd to, std::string first);
  // What poll() should wait for, then call move(); fd -1 when there is nothing to wait for.
  pollfd wanted() const;
  void move();

 private:
  UniqueFd to_;
  std::string waiting_;
  bool at_end_ = false;
};

// What hvdrun itself started: mpirun, or what starts the agent of each host. When hvdrun dies they
// get SIGTERM.
class RootProcesses {
 public:
  // The first one reads `in`, the others plan.agent_address. Returns the standard output and then
  // the standard error of each, to be read without waiting. Throws Error{kInternal} when one cannot
  // be started.
  std::vector<UniqueFd> start(const LaunchPlan& plan, int in);

  // What waitpid() said; false if it is none of these.
  bool note_end(pid_t pid, int status);
  // All of them have ended.
  bool ended() const { return running_.empty(); }
  // All have ended, or one of them has failed.
  bool over() const { return (ended() && !sessions_.empty()) || !failures_.empty(); }
  // How long ago the last one ended; zero if it has not.
  Duration ended_for(TimePoint now) const {
    return ended() && !none() ? now - ended_at_ : Duration::zero();
  }
  // Nothing was started: something else starts the agents.
  bool none() const { return sessions_.empty(); }
  struct Failure {
    std::size_t command = 0;  // its number in the plan
    int exit_code = 0;        // 128 + signal for a signal
  };
  // In the order of time; those that were asked to end do not count.
  const std::vector<Failure>& failures() const { return failures_; }
  // Of the first that failed; 0 if none did.
  int exit_code() const { return failures_.empty() ? 0 : failures_[0].exit_code; }
  // At `time` enforce_end() asks the process groups of those that still run to end, and kills them
  // a moment later.
  void end_at(TimePoint time) { next_blow_ = time; }
  void enforce_end(TimePoint now);
  // When enforce_end() has something to do next; max() if never.
  TimePoint next_deadline() const { return ended() ? TimePoint::max() : next_blow_; }
  // Kills what they started in their sessions and left to hvdrun, their subreaper: mpirun's ssh has
  // a process group of its own. For a job of which no agent came.
  void kill_orphans() const;

 private:
  std::vector<pid_t> running_;
  std::vector<pid_t> sessions_;  // of all
  std::vector<Failure> failures_;
  TimePoint ended_at_{};
  TimePoint next_blow_ = TimePoint::max();
  bool asked_ = false;  // to end
};

}  // namespace hvd::runner
