#pragma once

#include <poll.h>

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "runner/link/connection.h"
#include "runner/link/reception.h"
#include "runner/output/report.h"
#include "runner/plan/placement.h"

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
  // `ranks`: of each agent, by its number. An agent that does not answer for `link_timeout`, in
  // which hvdrun itself ran, is taken for lost.
  Agents(std::vector<std::vector<int>> ranks, Duration link_timeout)
      : ranks_(std::move(ranks)),
        link_timeout_(link_timeout),
        came_(ranks_.size(), false),
        facts_(ranks_.size()) {}

  // kAnyNumber: whether any number is left.
  bool expects(int number) const;
  void welcome(Reception::Agent agent, TimePoint now);
  bool any_came() const;
  std::size_t ranks() const;
  int first_rank() const { return ranks_[0][0]; }
  std::vector<int> missing() const;  // ranks whose agents have not come
  // What they said of their hosts, by number, once all have come and programs may be started; else
  // empty.
  std::vector<HostFacts> facts() const;
  // Starts the programs, by rank, and passes on the signals that came before.
  void run(std::span<const Start> programs);
  // Starts one program, also in place of one that is done. False if its agent is gone.
  bool start(int rank, const Start& program);
  // To a rank's agent, if it is there.
  template <typename M>
  void tell(int rank, const M& message) {
    if (Peer* peer = agent_of(rank)) peer->connection.say(message, rank);
  }
  // No agent is connected.
  bool none() const { return peers_.empty(); }

  // What poll() should wait for, added to `polls`.
  void add_polls(std::vector<pollfd>& polls) const;
  // Does what can be done now. `polls` are those that add_polls() added, after poll(). Returns what
  // happened, in order.
  std::vector<AgentEvent> serve(std::span<const pollfd> polls, TimePoint now);
  // Lets the agents go that have nothing more to say, or nothing to do. Not while a rank is still
  // to end by itself: mpirun kills the others when an agent is gone whose program did not finalize
  // MPI.
  void hang_up();
  void hang_up_all() { peers_.clear(); }
  // The output that came so far is dealt with: more may come.
  void take_more();
  // Tells programs to end, also those whose agents are still to come.
  void stop(int signal);
  // Passes a signal on to programs that go on, also those that are still to be started.
  void pass_on(int signal);
  // Asks what the agents' clocks say where it is time to; until next_deadline().
  void tick(TimePoint now);
  TimePoint next_deadline() const { return ask_at_; }

 private:
  struct Rank {
    int number = -1;
    std::uint32_t untaken = 0;
    bool ended = false;
    bool done = false;
  };
  struct Peer {
    Connection connection;
    int number = -1;
    std::vector<Rank> ranks;
    std::string host = "?";
    bool same_boot = false;
    ClockOffset clock;  // of the agent, seen from hvdrun
    Duration silent{};  // while hvdrun ran

    // When it was `time` on the agent's clock; `now` at the latest.
    TimePoint here(TimePoint time, TimePoint now) const;
    // Throws PeerLostError if it is none of its ranks.
    Rank& find(int rank);
    bool done() const;
  };

  Peer* agent_of(int rank);
  void greet(Peer& peer, const Hello& hello);
  void handle(Peer& peer, const Message& message, TimePoint now, std::vector<AgentEvent>& events);

  std::list<Peer> peers_;
  std::vector<std::vector<int>> ranks_;  // by agent
  Duration link_timeout_;
  std::vector<bool> came_;                       // by agent
  std::vector<std::optional<HostFacts>> facts_;  // by agent
  bool running_ = false;                         // programs were started
  int stop_signal_ = 0;                          // what agents were told; 0 = nothing yet
  std::vector<int> early_;                       // signals passed on before programs were started
  TimePoint ask_at_ = TimePoint::max();
  TimePoint ticked_{};
};

}  // namespace hvd::runner
