#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/negotiate/rank_protocol.h"

namespace hvd::engine::test {

// The tree in which parents[r] is the parent of rank r (rank 0 is its own), as every rank sees it.
std::vector<Tree> trees_of(const std::vector<Rank>& parents);
// Hosts of `per_host` ranks whose leaders form a tree of fan-out kTreeFanOut; the same as
// make_tree, for all ranks at once.
std::vector<Tree> hosts_of(int size, int per_host);

// How often a random test repeats itself: `usual`, or ten times that when HVD_TEST_LONG is set.
int repetitions(int usual);

// A promise of the protocol that was broken.
class Violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// One submission among all of its name. A rank counts its rounds anew in each epoch; an epoch of a
// process set ends when all of its ranks have joined.
struct Round {
  std::string name;
  int epoch = 0;
  int round = 0;

  friend auto operator<=>(const Round&, const Round&) = default;
};

std::string to_string(const Round& round);

// One submission of one rank, and what became of it.
struct Submitted {
  Round id;
  Request request;
  enum class Outcome { kPending, kRan, kRejected } outcome = Outcome::kPending;
  Status why;  // of a rejection
};

// What a batch is, in terms that must be equal on all ranks of its process set.
struct BatchRecord {
  RunBatch batch;             // tickets cleared
  std::vector<Round> rounds;  // of its members; empty until a rank that has not joined ran it
};

// N ranks as values in one thread. Messages wait in FIFO links until the schedule delivers them;
// whatever one rank does is checked against what the others did: batches are equal on all ranks of
// their set, the i-th submission of a name meets the i-th of every other rank, each ends the same
// way, sets have the same numbers and ranks everywhere, joins the same last rank.
class LockStepCluster {
 public:
  LockStepCluster(std::vector<Tree> trees, const NegotiationSettings& settings);

  int size() const { return static_cast<int>(nodes_.size()); }
  RankProtocol& rank(Rank r) { return *node(r).protocol; }
  const RankProtocol& rank(Rank r) const { return *node(r).protocol; }

  // -- what a rank's user does. `flush` = its coordinator looks right away.
  void submit(Rank r, const Request& request, bool flush = true);
  void join(Rank r, ProcessSetId set = kWorldSet, bool joins_average = false, bool flush = true,
            const std::string& name = "join");
  bool pending(Rank r, const std::string& name) const;
  bool pending_in(Rank r, ProcessSetId set) const;
  // Its join has not ended.
  bool joins(Rank r, ProcessSetId set) const { return node(r).joins.contains(set); }
  void leave(Rank r);
  // Whether the values of its small allreduces travel with its announcements; so they do at first.
  void send_values(Rank r, bool send) { node(r).sends_values = send; }
  // The rank disappears: its messages that were not delivered yet are lost or kept, its neighbours
  // in the tree will see it.
  void kill(Rank r, bool lose_mail);
  // Time passes on all ranks.
  void advance(Duration by);
  TimePoint now() const { return now_; }

  // -- the schedule
  struct Event {
    enum class Kind { kDeliver, kFinish, kSeeDeath } kind = Kind::kDeliver;
    Rank from = 0;  // kSeeDeath: who died
    Rank to = 0;    // whose coordinator acts
    friend auto operator<=>(const Event&, const Event&) = default;
  };
  std::vector<Event> events() const;
  void perform(const Event& event);
  // Performs events in random order until there is none.
  void settle(std::mt19937& random);
  // The rank's coordinator sends its messages and takes its effects.
  void flush(Rank r);

  // -- what happened
  const std::vector<Submitted>& submitted(Rank r) const { return node(r).submitted; }
  const std::map<std::uint64_t, BatchRecord>& batches() const { return batches_; }
  std::uint64_t batches_run(Rank r) const { return node(r).ran; }
  // Batches that some rank ran of sets that this one is in.
  std::uint64_t batches_of(Rank r) const;
  // The set that the submission of this name added, if this rank knows it (already, still).
  std::optional<ProcessSetId> added(Rank r, const std::string& name) const;
  const std::vector<Rank>& ranks_of(ProcessSetId set) const { return sets_.at(set); }
  int epoch(Rank r, ProcessSetId set) const;
  const std::vector<std::string>& reports(Rank r) const { return node(r).reports; }
  const std::optional<Stopped>& stopped(Rank r) const { return node(r).stopped; }
  std::size_t messages_sent(Rank r) const { return node(r).sent; }
  std::size_t bytes_sent(Rank r) const { return node(r).sent_bytes; }
  // Batches that rank 0 reduced.
  std::size_t reduced_by_root() const { return reduced_by_root_; }
  int rounds(Rank r, const std::string& name) const;  // submissions of a name in this epoch
  bool left(Rank r) const { return node(r).left; }
  bool dead(Rank r) const { return node(r).dead; }
  // What this rank was told and what it said, as a hash. What it was told in a row without saying
  // anything is taken in any order: such events only add to its counts. (Their order may show in
  // the wording of a report or of a rejection, but in nothing else.)
  std::size_t history(Rank r) const;

  // Messages on their way from one rank to another; for tests that alter them.
  std::deque<Bytes>& link(Rank from, Rank to) { return links_[{from, to}]; }
  // A rank whose messages are not delivered is silent, but alive.
  void mute(Rank r) { node(r).muted = true; }
  // A rank whose batches never end.
  void mute_finish(Rank r) { node(r).endless = true; }
  // What the rank's program answers when rank 0 asks where it is.
  void set_where(Rank r, const std::string& where) { node(r).where = where; }

 private:
  struct Node {
    std::unique_ptr<RankProtocol> protocol;
    Tree tree;
    std::vector<Submitted> submitted;                           // by ticket - 1
    std::map<std::string, Ticket> last;                         // by name
    std::map<ProcessSetId, std::map<std::string, int>> rounds;  // of this epoch
    std::map<ProcessSetId, int> epochs;
    std::map<ProcessSetId, Ticket> joins;
    std::set<ProcessSetId> sets = {kWorldSet};  // that exist here
    ProcessSetId next_set = 1;
    std::uint64_t next_batch = 0;
    std::deque<std::uint64_t> unfinished;  // batches whose credit this rank gives back
    std::set<Rank> deaths_to_see;
    std::uint64_t ran = 0;
    std::vector<std::string> reports;
    std::optional<Stopped> stopped;
    std::string where;
    std::size_t sent = 0;
    std::size_t sent_bytes = 0;
    std::size_t history = 0;  // up to when it last said something
    std::size_t told = 0;     // since then
    bool left = false;
    bool dead = false;
    bool muted = false;
    bool endless = false;
    bool sends_values = true;
  };
  Node& node(Rank r) { return nodes_[static_cast<std::size_t>(r)]; }
  const Node& node(Rank r) const { return nodes_[static_cast<std::size_t>(r)]; }
  Ticket new_ticket(Rank r, const Request& request);
  void remember(Rank r, const std::string& what);
  // The order of what comes before and what comes after matters.
  void close_history(Rank r, std::size_t said);

  void on(Rank r, RunBatch batch);
  void on(Rank r, FailTicket fail);
  void on(Rank r, SetAdded added);
  void on(Rank r, SetRemoved removed);
  void on(Rank r, AllJoined joined);
  void on(Rank r, ProbeRanks look);
  void on(Rank r, Report report);
  void on(Rank r, Stopped stopped);
  Submitted& end(Rank r, Ticket ticket, Submitted::Outcome outcome);
  Round run_member(Rank r, const RunBatch& batch, const BatchMember& member);
  void check_joined_or_not(Rank r, const RunBatch& batch) const;
  void check_result(const RunBatch& batch, const std::vector<Round>& rounds) const;

  std::vector<Node> nodes_;
  std::map<std::pair<Rank, Rank>, std::deque<Bytes>> links_;
  std::map<std::uint64_t, BatchRecord> batches_;
  std::map<ProcessSetId, std::vector<Rank>> sets_;            // removed ones too
  std::map<std::string, ProcessSetId> added_;                 // by the name of the submission
  std::map<std::pair<ProcessSetId, int>, Rank> last_joined_;  // by set and epoch
  std::map<Round, Submitted::Outcome> outcomes_;
  TimePoint now_{};
  std::size_t reduced_by_root_ = 0;
  std::size_t credit_;  // batches that may be unfinished
};

}  // namespace hvd::engine::test
