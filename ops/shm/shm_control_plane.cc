#include "ops/shm/shm_control_plane.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "core/runtime/wake/waiting.h"

namespace hvd::engine {
namespace {

using FrameLength = std::uint64_t;

std::span<const std::byte> bytes_of(const FrameLength& length) {
  return std::as_bytes(std::span(&length, 1));
}

}  // namespace

ShmControlPlane::ShmControlPlane(Placement placement, std::shared_ptr<SharedMemory> memory,
                                 const std::vector<ProcessHandle>& processes)
    : ControlPlane(std::move(placement)),
      mailboxes_(std::move(memory), topology_.local_size),
      slot_(&mailboxes_.slot(topology_.local_rank)),
      doorbell_(slot_->bell) {
  const std::vector<Rank> ranks = local_ranks(placement_);
  std::vector<ProcessHandle> watched;
  for (int local = 0; local < topology_.local_size; ++local) {
    if (local == topology_.local_rank) continue;
    const auto place = static_cast<std::size_t>(local);
    Peer& peer = peers_.emplace_back(ranks[place], processes[place]);
    peer.slot = &mailboxes_.slot(local);
    peer.to = mailboxes_.ring(topology_.local_rank, local);
    peer.from = mailboxes_.ring(local, topology_.local_rank);
    watched.push_back(peer.process);
  }
  next_ = peers_.begin();
  watch_ = std::make_unique<PeerWatch>(watched, [this](std::size_t i) {
    peers_[i].ended.store(true, std::memory_order_release);
    doorbell_.ring();
  });
}

ShmControlPlane::~ShmControlPlane() {
  const TimePoint deadline = Clock::now() + flush_limit_;
  while (!aborted_ && !flush_all() && Clock::now() < deadline) {
    doorbell_.wait_until(doorbell_.rings(), Clock::now() + std::chrono::milliseconds(1));
  }
  watch_.reset();
  auto here = RankState::kHere;
  slot_->state.compare_exchange_strong(here, RankState::kLeft);
  for (Peer& peer : peers_) Doorbell(peer.slot->bell).ring();
}

ShmControlPlane::Peer* ShmControlPlane::find(Rank rank) noexcept {
  const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                 [rank](const Peer& candidate) { return candidate.rank == rank; });
  return peer == peers_.end() ? nullptr : &*peer;
}

bool ShmControlPlane::accepts(const Peer& peer) noexcept {
  return peer.slot->state == RankState::kHere && !peer.ended.load(std::memory_order_acquire);
}

bool ShmControlPlane::is_gone(const Peer& peer) noexcept {
  // In this order: a rank that left says so before its process ends.
  const bool ended = peer.ended.load(std::memory_order_acquire);
  const RankState state = peer.slot->state;
  return state == RankState::kFailed || (ended && state != RankState::kLeft);
}

void ShmControlPlane::send(Rank to, std::span<const std::byte> message) {
  Peer* peer = find(to);
  if (peer == nullptr) {
    throw InternalError("rank " + std::to_string(to) + " has no mailbox on host " +
                        placement_.host_name(topology_.rank));
  }
  const FrameLength length = message.size();
  if (peer->outbox.empty() && peer->to.room() >= sizeof length + message.size()) {
    peer->to.write(bytes_of(length));
    peer->to.write(message);
    return show_mail(*peer);
  }
  Bytes& frame = peer->outbox.emplace_back(bytes_of(length).begin(), bytes_of(length).end());
  frame.insert(frame.end(), message.begin(), message.end());
  flush(*peer);
}

void ShmControlPlane::flush(Peer& peer) {
  if (!accepts(peer)) {
    peer.outbox.clear();
    peer.front_sent = 0;
    return;
  }
  bool wrote = false;
  while (!peer.outbox.empty()) {
    const Bytes& frame = peer.outbox.front();
    const std::size_t count = peer.to.write(std::span(frame).subspan(peer.front_sent));
    wrote = wrote || count > 0;
    peer.front_sent += count;
    if (peer.front_sent < frame.size()) break;
    peer.outbox.pop_front();
    peer.front_sent = 0;
  }
  if (wrote) show_mail(peer);
  unsent_ = unsent_ || !peer.outbox.empty();
}

// A thread that is blocked polls until the peer has read it.
void ShmControlPlane::show_mail(Peer& peer) noexcept {
  if (defers_wake(peer.slot->bell) && blocked_threads() > 0) {
    peer.slot->bell.rings.fetch_add(1, std::memory_order_seq_cst);
    if (peer.rings_at == TimePoint::max()) peer.rings_at = Clock::now() + kWakeDelay;
    owes_ring_ = true;
  } else {
    peer.rings_at = TimePoint::max();
    Doorbell(peer.slot->bell).ring();
  }
}

void ShmControlPlane::ring_overdue() noexcept {
  if (!std::exchange(owes_ring_, false)) return;
  for (Peer& peer : peers_) {
    if (peer.rings_at == TimePoint::max()) continue;
    const bool was_read = peer.to.readable() == 0;
    if (!was_read && Clock::now() < peer.rings_at) {
      owes_ring_ = true;
      continue;
    }
    peer.rings_at = TimePoint::max();
    if (!was_read) Doorbell(peer.slot->bell).ring();
  }
}

std::optional<Duration> ShmControlPlane::poll_interval() const {
  return owes_ring_ ? std::optional(kWakeDelay) : std::nullopt;
}

bool ShmControlPlane::flush_all() {
  if (!std::exchange(unsent_, false)) return true;
  for (Peer& peer : peers_) {
    if (!peer.outbox.empty()) flush(peer);
  }
  return !unsent_;
}

std::optional<Message> ShmControlPlane::receive(Peer& peer) {
  while (true) {
    if (peer.incoming.empty()) {
      FrameLength length = 0;
      if (peer.from.readable() < sizeof length) return std::nullopt;
      if (peer.from.read(std::as_writable_bytes(std::span(&length, 1)))) {
        Doorbell(peer.slot->bell).ring();
      }
      if (length == 0) return Message{peer.rank, {}};
      peer.incoming = std::exchange(spare_, {});
      peer.incoming.resize(static_cast<std::size_t>(length));
      peer.received = 0;
    }
    const std::size_t count = std::min(peer.from.readable(), peer.incoming.size() - peer.received);
    if (count == 0) return std::nullopt;
    if (peer.from.read(std::span(peer.incoming).subspan(peer.received, count))) {
      Doorbell(peer.slot->bell).ring();
    }
    peer.received += count;
    if (peer.received == peer.incoming.size()) {
      return Message{peer.rank, std::exchange(peer.incoming, {})};
    }
  }
}

std::optional<Message> ShmControlPlane::poll() {
  flush_all();
  ring_overdue();
  // Whoever writes, fails or leaves rings afterwards, and so does the thread that sees deaths.
  const std::uint32_t rings = doorbell_.rings();
  if (rings == looked_at_) return std::nullopt;
  Peer* lost = nullptr;
  for (std::size_t left = peers_.size(); left > 0; --left) {
    Peer& peer = *next_;
    if (++next_ == peers_.end()) next_ = peers_.begin();
    // Before looking for messages: what a peer sent before it was gone is here then.
    const bool gone = is_gone(peer);
    if (peer.from.readable() > 0) {
      if (auto message = receive(peer)) return message;
    }
    // A death comes before the failures it caused.
    const bool died = peer.slot->state != RankState::kFailed;
    if (gone && !peer.reported && (lost == nullptr || died)) lost = &peer;
  }
  if (lost == nullptr) {
    looked_at_ = rings;
    return std::nullopt;
  }
  if (lost->slot->state == RankState::kFailed && notice_deaths()) return poll();
  lost->reported = true;
  throw LostRankError(lost->rank, describe_loss(*lost));
}

// A peer may have failed because of a death that the watching thread is about to see.
bool ShmControlPlane::notice_deaths() {
  bool any = false;
  for (Peer& peer : peers_) {
    if (peer.reported || peer.slot->state != RankState::kHere) continue;
    if (!peer.ended && peer.process.ended()) peer.ended = true;
    any = any || peer.ended;
  }
  return any;
}

std::string ShmControlPlane::describe_loss(const Peer& peer) const {
  const std::string who =
      placement_.described(peer.rank) + " (pid " + std::to_string(peer.process.id().pid) + ")";
  if (peer.slot->state != RankState::kFailed) {
    return who + " is gone: its process ended without shutting down";
  }
  return who + " failed: " + peer.slot->why;
}

void ShmControlPlane::abort(const Status& why) noexcept {
  if (aborted_.exchange(true)) return;
  const std::size_t count = std::min(why.message().size(), sizeof slot_->why - 1);
  std::memcpy(slot_->why, why.message().data(), count);
  slot_->why[count] = '\0';
  slot_->state = RankState::kFailed;
  for (Peer& peer : peers_) Doorbell(peer.slot->bell).ring();
  doorbell_.ring();
}

}  // namespace hvd::engine
