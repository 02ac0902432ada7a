#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "core/config/loss_mark.h"
#include "runner/link/connection.h"
#include "runner/link/wire.h"
#include "runner/output_count.h"
#include "runner/plan/launch_plan.h"

namespace hvd::runner {

// Where it is set, to a value of the rank's own, whatever the program starts inherits it, in
// whatever session, and is killed when the program has ended.
inline constexpr const char* kMarkVariable = "HVD_RANK_MARK";

// One rank's program, which an agent runs in a session of its own: sends its output and its end to
// hvdrun and passes signals on. Never waits, except for exec().
class Program {
 public:
  // Starts it with this environment and what `run` adds. `hvdrun` must live longer.
  Program(int rank, const Start& run, Environment environment, Connection& hvdrun);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int rank() const { return rank_; }
  std::uint32_t process() const { return process_; }  // see Signal
  // What poll() should wait for: two entries; after poll() they are for serve().
  void add_polls(std::vector<pollfd>& polls) const;
  void serve(const pollfd* polls);
  // When tick() has something to do next; max() if never.
  TimePoint next_deadline() const;
  void tick(TimePoint now);

  // hvdrun has taken this many bytes.
  void taken(std::size_t bytes) { on_the_way_ -= std::min(on_the_way_, bytes); }
  // `signal` first, SIGKILL to all of its group after a grace.
  void stop(int signal);
  void pass_on(int signal);
  // To the process alone; SIGKILL to its group.
  void signal(int number);
  // After SIGCHLD.
  void reap();

  // All was sent, or it is too late for the rest; hvdrun hangs up when it has that of all ranks.
  bool done() const { return done_; }
  // hvdrun has had its time to hang up: it was told to stop.
  bool overdue(TimePoint now) const { return done_ && now >= deliver_by_; }

 private:
  bool has_room() const;
  void start(const Start& run);
  void read(UniqueFd& fd, Stream stream);
  void note_end(EndKind kind, int value);
  bool delivered(TimePoint now) const;
  TimePoint given_up_at() const;

  int rank_;
  std::uint32_t process_;
  Connection& hvdrun_;
  Environment environment_;
  LossMark loss_mark_;
  std::size_t on_the_way_ = 0;  // bytes of output that hvdrun has not taken
  pid_t pid_ = -1;
  UniqueFd out_;
  UniqueFd err_;
  bool is_idle_ = true;               // nothing was there to read
  TimePoint last_output_;             // or when there was no room for any
  TimePoint open_since_;              // the end, or when there was no room for output after it
  std::optional<OutputCount> count_;  // of what pipes brought
  std::size_t drained_ = 0;           // bytes that came after the end
  std::optional<TimePoint> kill_at_;
  std::optional<ProgramEnd> end_;
  TimePoint deliver_by_ = TimePoint::max();  // after the end
  bool done_ = false;
};

}  // namespace hvd::runner
