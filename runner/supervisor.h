#pragma once

#include <poll.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "runner/agents.h"
#include "runner/link/reception.h"
#include "runner/output/output_writer.h"
#include "runner/plan/launch_plan.h"
#include "runner/process.h"

namespace hvd::runner {

// What a job and a relay have in common: the agents, what starts them, and one loop over the
// descriptors of all.
class Supervisor {
 public:
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  virtual ~Supervisor() = default;

 protected:
  Supervisor(const Options& options, const LaunchContext& context);

  // Starts what starts the agents. Returns the standard input of the first, and what has to be
  // written there before anything else.
  std::pair<UniqueFd, std::string> start_agents();

  struct Watched {
    pollfd wanted;
    std::function<void()> serve;  // once it is ready
  };
  // Waits until `until` at the latest, and calls the functions below for what happened.
  // `hears_starters`: else what starts the agents has to wait with its output.
  void turn(std::span<const Watched> others, bool hears_starters, TimePoint until);
  // When turn() has something to do by itself.
  TimePoint next_deadline() const;

  // What the rank's program is started with: its place in the job, before `chosen` (join()ed
  // variables), and that before what hvdrun exports.
  Start program(const Environment& place, bool on_terminal, const std::string& chosen) const;
  // To the files of --output-filename.
  void keep(int rank, Stream stream, std::string_view bytes);
  // Keeps the first of what starts the agents said, by command of the plan.
  void hold(std::size_t number, std::string_view bytes);
  // What failed to start agents, and what to do about it where that is known by what was held.
  // `where_it_is`: what to say about that.
  std::string starter_failures(std::string_view where_it_is) const;
  virtual void say(const std::string& text, Stream stream = Stream::kStderr) = 0;

  virtual void on_agent() {}  // a further one is here
  virtual void on_event(const AgentEvent& event) = 0;
  // Of plan.commands[number]; `bytes` may be empty, at the end.
  virtual void on_starter_output(std::size_t number, Stream stream, const std::string& bytes) = 0;
  virtual void on_starter_end() = 0;
  virtual void on_signal(int signal) = 0;  // except SIGCHLD

  const Options& options_;
  UniqueFd signals_;
  Agents agents_;
  Reception reception_;
  const LaunchPlan plan_;
  RootProcesses roots_;
  std::vector<UniqueFd> starter_output_;  // of each command, by stream
  std::vector<std::string> held_;         // see hold()

 private:
  void read_signals();
  void reap();

  RankFiles files_;
};

// For an error: what plan.commands[number] is.
std::string starter_of(const LaunchPlan& plan, std::size_t number);

// Machines of which this one knows no address, and what to do; "" if there are none. Not before a
// job fails to start: ssh may know machines by names of its own.
std::string address_advice(std::span<const HostSlots> hosts);

}  // namespace hvd::runner
