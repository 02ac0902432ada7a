#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/negotiate/announcement.h"
#include "core/negotiate/decision.h"
#include "core/negotiate/decision_check.h"
#include "core/negotiate/fifo.h"
#include "core/negotiate/message.h"
#include "core/negotiate/parent_watch.h"
#include "core/negotiate/process_sets.h"
#include "core/negotiate/rank_protocol.h"
#include "core/negotiate/response_cache.h"
#include "core/negotiate/sequencer.h"
#include "core/negotiate/sightings.h"
#include "core/negotiate/stall_report.h"
#include "core/negotiate/submissions.h"
#include "core/negotiate/tally.h"

namespace hvd {

// The parts of RankProtocol and how they hang together. Split over rank_protocol.cc (events,
// messages, effects), log_replica.cc (decisions), stopping.cc (leaving, failures), stalls.cc and
// verdicts.cc.
class RankProtocol::Impl {
 public:
  Impl(Tree tree, const NegotiationSettings& settings, std::uint32_t epoch);

  void submit(Ticket ticket, const Request& request);
  void finished(std::uint64_t batch);
  void sighted(const std::string& where);
  void expect_wait_for_root(TimePoint deadline);
  void change_settings(const NegotiationSettings& settings);
  void leave();
  void fail(const Status& why);
  void peer_lost(Rank rank, const Status& why);
  void receive(Rank from, std::span<const std::byte> message);
  void tick(TimePoint now);
  std::optional<OutgoingMessage> next_message();
  std::optional<Effect> next_effect();
  void reuse(OutgoingMessage&& sent);
  void reuse(RunBatch&& done);
  const NegotiationSettings& settings() const { return settings_; }
  std::optional<TimePoint> next_deadline() const;
  bool finished_leaving() const;

 private:
  bool root() const { return tree_.rank == 0; }

  // -- rank_protocol.cc
  void check_submission(const Request& request) const;
  std::string fault_here(const Request& request) const;
  void join(Ticket ticket, const Request& request);
  void announce(const Request& request);
  void announce_joins();
  static void check(const NegotiationSettings& settings);
  void need_root(const char* what) const;
  void receive_announcement(Rank from, ByteReader& in);
  void check(const Announcement& announcement, Tally::Reporter from) const;
  void check(const Variants& variants, Tally::Reporter from) const;
  void check(const Joining& joining, Tally::Reporter from) const;
  void take(const Absence& absence, Tally::Reporter from);
  // What became ready here goes up (rank 0: to the sequencer and down again).
  void flush();
  std::optional<Tally::Reporter> reporter_of(Rank child) const;
  void send(Rank to, MessageKind kind, const auto& body) {
    OutgoingMessage message{to, take_spare(spare_bytes_)};
    message.bytes.reserve(last_size_);
    ByteWriter out(message.bytes);
    write(out, MessageHeader{kind, epoch_});
    write(out, body);
    last_size_ = message.bytes.size();
    messages_.push(std::move(message));
  }
  void send(Rank to, MessageKind kind);  // without a body
  static constexpr std::size_t kSpares = 64;
  template <typename Storage>
  static Storage take_spare(std::vector<Storage>& spares) {
    if (spares.empty()) return {};
    Storage storage = std::move(spares.back());
    spares.pop_back();
    return storage;
  }

  // -- log_replica.cc
  void receive_decision(std::span<const std::byte> message, ByteReader& in);
  void apply(const Decision& decision);
  void apply(const Decision& decision, const ChangeSettings& step);
  void apply(const Decision& decision, const DefineSlot& step);
  void apply(const Decision& decision, const RunSlots& step);
  void apply(const Decision& decision, const RejectName& step);
  void apply(const Decision& decision, const EvictSlot& step);
  void apply(const Decision& decision, const JoinRank& step);
  void apply(const Decision& decision, const Ask& step);
  void apply(const Decision& decision, const Stop& step);

  void run_batch(std::span<const SlotNumber> slots);
  void change_sets(SlotNumber slot);
  void forget(SlotNumber slot);
  void note_progress(ProcessSetId set);

  // -- stopping.cc
  void receive_alarm(ByteReader& in);
  void halt(const Emergency& emergency);
  void stop(const Status& why, bool orderly);
  void lost(Rank rank);

  // -- stalls.cc
  void check_names();
  std::vector<Waiting> blameable(std::vector<Waiting> waiting) const;
  void tell_absence(const std::string& name, Duration held);
  bool watches_batches() const;
  void check_batches();
  void check_joins();
  bool waits() const;  // this rank does, for others
  void watch_parent();
  void receive_probe(Rank from, ByteReader& in);
  // What rank 0 does about waits that became remarkable. `describe` gets those of one report, of
  // which the first has waited longest.
  using Describe = StallReport (Impl::*)(const std::vector<Overdue>&) const;
  void report(const StallFindings& findings, Describe describe);
  void warn(Duration held, const StallReport& report);

  // -- verdicts.cc
  enum class Verdict {
    kExpected,
    kSilent,
    kUnreachable,  // what it says comes through a rank that is silent
    kNotAsked,
    kElsewhere,
    kJoined,
    kRuns,
    kBusy
  };
  Rank relay_of(Rank rank) const;
  Verdict verdict(Rank rank) const;
  std::vector<Rank> missing(const std::string& name) const;
  std::string waits_in(const std::string& name) const;
  StallLine line_of(Rank rank) const;
  StallLine line_of_waiting(Rank rank, const std::string& name) const;
  StallReport report_of_missing(const std::vector<Rank>& missing) const;
  StallReport report_names(const std::vector<Overdue>& waits) const;
  StallReport report_batches(const std::vector<Overdue>& waits) const;
  StallReport report_joins(const std::vector<Overdue>& waits) const;
  Duration patience() const;

  Tree tree_;
  NegotiationSettings settings_;
  std::uint32_t epoch_;

  ResponseCache cache_;
  ProcessSets sets_;
  Submissions submissions_;
  DecisionCheck check_decision_;
  Tally tally_;
  Announcement outbox_;                 // complete here, not yet sent
  std::optional<Sequencer> sequencer_;  // rank 0 only
  std::uint64_t applied_ = 0;           // number of the last decision
  std::uint64_t batches_ = 0;
  std::vector<std::uint64_t> owed_;  // batches whose credit this rank gives back
  std::size_t running_ = 0;          // batches that this rank was told to run and has not finished
  std::string last_submitted_;
  TimePoint now_{};
  StallMonitor names_monitor_;
  StallMonitor batches_monitor_;         // rank 0 only
  StallMonitor joins_monitor_;           // rank 0 only
  ParentWatch parent_watch_;             // not on rank 0
  std::vector<std::uint64_t> progress_;  // rank 0, by set: changes when something ran
  std::uint64_t progress_count_ = 0;
  std::uint64_t asks_ = 0;                         // steps so far
  std::map<std::string, std::vector<Rank>> told_;  // others: who is missing, as last told upwards
  Sightings sightings_;                            // rank 0 only
  std::string last_report_;                        // rank 0: what the last one said about ranks
  TimePoint last_report_at_{};
  std::optional<TimePoint> root_expected_;  // rank 0: nobody is blamed for it until then

  bool leaving_ = false;
  std::optional<Status> stopped_;
  std::vector<bool> gone_;  // by child: confirmed the stop, or lost
  bool parent_gone_ = false;

  Fifo<OutgoingMessage> messages_;
  std::size_t last_size_ = 0;  // bytes of the last message; the next is likely to be as large
  Fifo<Effect> effects_;

  // Kept for their storage.
  std::vector<Bytes> spare_bytes_;
  std::vector<std::vector<BatchMember>> spare_members_;
  Announcement incoming_;
  Decision decision_;
};

}  // namespace hvd
