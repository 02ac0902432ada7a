#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/negotiate/decision.h"
#include "core/negotiate/decision_check.h"
#include "core/negotiate/fifo.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/messages/message.h"
#include "core/negotiate/process_sets.h"
#include "core/negotiate/rank_protocol.h"
#include "core/negotiate/readiness_tracker.h"
#include "core/negotiate/response_cache.h"
#include "core/negotiate/sequencer.h"
#include "core/negotiate/stall_watch.h"
#include "core/negotiate/submissions.h"

namespace hvd {

// The parts of RankProtocol and how they hang together. Split over rank_protocol.cc (events,
// messages, effects), log_replica.cc (decisions) and stopping.cc (leaving, failures, stalls).
class RankProtocol::Impl {
 public:
  Impl(Tree tree, const NegotiationSettings& settings, std::uint32_t epoch);

  void submit(Ticket ticket, const Request& request);
  void finished(std::uint64_t batch);
  void status_reported(const std::string& where);
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
  void check(const Announcement& announcement, ReadinessTracker::Reporter from) const;
  void check(const Variants& variants, ReadinessTracker::Reporter from) const;
  void check(const Joining& joining, ReadinessTracker::Reporter from) const;
  void take(const MissingRanks& absence, ReadinessTracker::Reporter from);
  // What became ready here goes up (rank 0: to the sequencer and down again).
  void flush();
  std::optional<ReadinessTracker::Reporter> reporter_of(Rank child) const;
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

  // -- stopping.cc
  void receive_alarm(ByteReader& in);
  void halt(const AbortNotice& emergency);
  void stop(const Status& why, bool orderly);
  void lost(Rank rank);

  bool waits() const;  // this rank does, for others
  StallWatch::Load load() const;
  void give_up_parent(const Status& why);
  void receive_probe(Rank from, ByteReader& in);

  Tree tree_;
  NegotiationSettings settings_;
  std::uint32_t epoch_;

  ResponseCache cache_;
  ProcessSets sets_;
  Submissions submissions_;
  DecisionCheck check_decision_;
  ReadinessTracker readiness_;
  Announcement outbox_;                 // complete here, not yet sent
  std::optional<Sequencer> sequencer_;  // rank 0 only
  std::uint64_t applied_ = 0;           // number of the last decision
  std::uint64_t batches_ = 0;
  std::vector<std::uint64_t> credits_to_return_;  // batches whose credit this rank gives back
  std::size_t running_ = 0;  // batches that this rank was told to run and has not finished
  std::string last_submitted_;
  TimePoint now_{};
  StallWatch stalls_;
  std::uint64_t asks_ = 0;  // steps so far

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
