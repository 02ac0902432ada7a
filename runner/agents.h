#pragma once

#include <poll.h>

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "runner/link/connection.h"
#include "runner/link/reception.h"
#include "runner/output/report.h"

namespace hvd::runner {

struct RankOutput {
  int rank = 0;
  Output output;
};
// No output of this rank will follow.
struct RankDone {
  int rank = 0;
};
using AgentEvent = std::variant<RankOutput, RankEnd, RankDone>;

// hvdrun's side of the agents that have proven to be of this job. Not thread-safe.
class Agents {
 public:
  explicit Agents(int np) : came_(static_cast<std::size_t>(np), false) {}

  bool expects(int rank) const;
  void welcome(Reception::Agent agent, TimePoint now);
  bool any_came() const;
  std::vector<int> missing() const;  // ranks whose agents have not come
  // No agent is connected.
  bool none() const { return peers_.empty(); }

  // What poll() should wait for, added to `polls`.
  void add_polls(std::vector<pollfd>& polls) const;
  // Does what can be done now. `polls` are those that add_polls() added, after poll(). Returns what
  // happened, in order.
  std::vector<AgentEvent> serve(std::span<const pollfd> polls, TimePoint now);
  // Lets the agents go that have nothing more to say. Not while a rank is still to end by itself:
  // mpirun kills the others when an agent is gone whose program did not finalize MPI.
  void hang_up();
  // The output that came so far is dealt with: more may come.
  void take_more();
  // Tells programs to end, those too whose agents are still to come.
  void stop(int signal);
  // Passes a signal on to programs that go on, those too whose agents are still to come.
  void pass_on(int signal);
  // Asks what the agents' clocks say where it is time to; until next_deadline().
  void tick(TimePoint now);
  TimePoint next_deadline() const { return ask_at_; }

 private:
  struct Peer {
    Connection connection;
    int rank = -1;
    std::string host = "?";
    bool same_boot = false;
    ClockOffset clock;  // of the agent, seen from hvdrun
    std::uint32_t untaken = 0;
    bool ended = false;
    bool done = false;

    // When it was `time` on the agent's clock; `now` at the latest.
    TimePoint here(TimePoint time, TimePoint now) const;
  };

  void handle(Peer& peer, const Message& message, TimePoint now, std::vector<AgentEvent>& events);

  std::list<Peer> peers_;
  std::vector<bool> came_;  // by rank
  int stop_signal_ = 0;     // what agents were told; 0 = nothing yet
  std::vector<int> early_;  // signals passed on before all agents came
  TimePoint ask_at_ = TimePoint::max();
};

}  // namespace hvd::runner
