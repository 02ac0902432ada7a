#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/deadlines.h"
#include "core/ports/control_plane.h"
#include "ops/shm/data_segment.h"
#include "ops/shm/process.h"

namespace hvd::engine {

// Ranks of one host talk through mailboxes in a segment that all map. A rank that dies is noticed
// by the others through the system, whatever it was doing; one whose control plane was destroyed
// has left in order and is not reported.
class ShmControlPlane final : public ControlPlane {
 public:
  // `processes[i]` is the process of the i-th rank of this host, whatever PID namespace it is in.
  // Collective only in that all of them get the same zeroed memory; none waits for another.
  ShmControlPlane(Placement placement, std::shared_ptr<SharedMemory> memory,
                  const std::vector<ProcessHandle>& processes);
  // Gives what is still queued one second to leave.
  ~ShmControlPlane() override;

  // Throws InternalError for a rank of another host. What is sent to a rank that is gone vanishes.
  void send(Rank to, std::span<const std::byte> message) override;
  std::optional<Message> poll() override;
  void reuse(Bytes&& read) noexcept override {
    spare_ = std::move(read);
    spare_.clear();
  }
  Doorbell& doorbell() noexcept override { return doorbell_; }
  DoorbellState& doorbell_state() noexcept { return slot_->bell; }
  std::optional<Duration> poll_interval() const override;
  void job_failed() noexcept override { flush_limit_ = kErrorFlushLimit; }
  void abort(const Status& why) noexcept override;

 private:
  struct Peer {
    Peer(Rank its_rank, ProcessHandle its_process)
        : rank(its_rank), process(std::move(its_process)) {}

    Rank rank;
    ProcessHandle process;
    RankSlot* slot = nullptr;
    ByteRing to;
    ByteRing from;
    std::atomic<bool> ended{false};  // set by the watching thread
    bool reported = false;

    std::deque<Bytes> outbox;    // frames the ring had no room for
    std::size_t front_sent = 0;  // bytes of outbox.front() that are in the ring
    // When it is rung for what is in the ring, unless it has read that; max = it was.
    TimePoint rings_at = TimePoint::max();

    Bytes incoming;            // the frame that is arriving
    std::size_t received = 0;  // bytes of it that are here
  };

  Peer* find(Rank rank) noexcept;
  static bool accepts(const Peer& peer) noexcept;
  static bool is_gone(const Peer& peer) noexcept;
  void flush(Peer& peer);
  bool flush_all();
  void show_mail(Peer& peer) noexcept;
  void ring_overdue() noexcept;
  std::optional<Message> receive(Peer& peer);
  bool notice_deaths();
  std::string describe_loss(const Peer& peer) const;

  Mailboxes mailboxes_;
  RankSlot* slot_;
  Doorbell doorbell_;
  std::deque<Peer> peers_;                  // a deque: peers do not move
  std::deque<Peer>::iterator next_;         // whose mailbox is looked at first
  std::optional<std::uint32_t> looked_at_;  // rings, before all mailboxes were found empty
  Bytes spare_;                             // storage for what arrives next
  bool unsent_ = false;                     // some outbox is not empty
  bool owes_ring_ = false;                  // some Peer::rings_at is set
  Duration flush_limit_ = kFlushLimit;
  std::atomic<bool> aborted_{false};
  std::unique_ptr<PeerWatch> watch_;  // last: its thread uses the rest
};

}  // namespace hvd::engine
