#include "runner/agents.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/system/host.h"

namespace hvd::runner {
namespace {

constexpr Duration kAskEvery = std::chrono::seconds(30);  // clocks drift apart

}  // namespace

TimePoint Agents::Peer::here(TimePoint time, TimePoint now) const {
  const auto estimate = clock.at(now);
  Duration offset = estimate ? estimate->offset : Duration::zero();
  // One kernel has one clock, unless its containers have times of their own.
  if (same_boot && estimate && std::chrono::abs(offset) <= estimate->error) offset = {};
  if (!same_boot && !estimate) return now;
  return std::min(now, time - offset);
}

bool Agents::expects(int rank) const {
  return rank >= 0 && std::cmp_less(rank, came_.size()) && !came_[static_cast<std::size_t>(rank)];
}

void Agents::welcome(Reception::Agent agent, TimePoint now) {
  if (!expects(agent.rank)) return;  // two came for one rank at once: the first is it
  came_[static_cast<std::size_t>(agent.rank)] = true;
  Peer& peer = peers_.emplace_back();
  peer.connection = std::move(agent.connection);
  peer.rank = agent.rank;
  for (const int signal : early_) peer.connection.say(Signal{signal});
  if (stop_signal_ != 0) peer.connection.say(Stop{stop_signal_});
  peer.connection.say(ClockQuestion{now});
  ask_at_ = std::min(ask_at_, now + kAskEvery);
}

bool Agents::any_came() const {
  return std::find(came_.begin(), came_.end(), true) != came_.end();
}

std::vector<int> Agents::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < came_.size(); ++rank) {
    if (!came_[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void Agents::add_polls(std::vector<pollfd>& polls) const {
  for (const Peer& peer : peers_) polls.push_back(peer.connection.wanted());
}

std::vector<AgentEvent> Agents::serve(std::span<const pollfd> polls, TimePoint now) {
  std::vector<AgentEvent> events;
  std::size_t at = 0;
  for (Peer& peer : peers_) {
    // What it said with the end of its handshake is here without a poll() of its own.
    const bool ready = at < polls.size() && polls[at].revents != 0;
    ++at;
    bool alive = true;
    try {
      if (ready) {
        peer.connection.send();
        alive = peer.connection.receive();
      }
      while (const auto message = peer.connection ? peer.connection.next() : std::nullopt) {
        handle(peer, *message, now, events);
      }
    } catch (const PeerLostError&) {
      alive = false;  // an agent of another version
    }
    if (alive) continue;
    if (!peer.ended) {
      events.emplace_back(RankEnd{
          peer.rank, peer.host, now, {.kind = EndKind::kLost, .was_stopped = stop_signal_ != 0}});
    }
    if (!peer.done) events.emplace_back(RankDone{peer.rank});
    peer.connection.close();
  }
  std::erase_if(peers_, [](const Peer& peer) { return !peer.connection; });
  return events;
}

void Agents::handle(Peer& peer, const Message& message, TimePoint now,
                    std::vector<AgentEvent>& events) {
  switch (message.type) {
    case MessageType::kHello: {
      const Hello hello = read<Hello>(message);
      peer.host = hello.host;
      peer.same_boot = !hello.boot.empty() && hello.boot == boot_id();
      return;
    }
    case MessageType::kOutput: {
      Output output = read<Output>(message);
      peer.untaken += static_cast<std::uint32_t>(output.bytes.size());
      events.emplace_back(RankOutput{peer.rank, std::move(output)});
      return;
    }
    case MessageType::kEnd: {
      if (peer.ended) ByteReader::malformed("a program ends once");
      const ProgramEnd end = read<ProgramEnd>(message);
      peer.ended = true;
      events.emplace_back(RankEnd{peer.rank, peer.host, peer.here(end.time, now), end});
      return;
    }
    case MessageType::kDone:
      if (!peer.done) events.emplace_back(RankDone{peer.rank});
      peer.done = true;
      return;
    case MessageType::kClockAnswer: {
      const ClockAnswer answer = read<ClockAnswer>(message);
      peer.clock.add({answer.asked, answer.answered, now});
      if (!peer.clock.full()) peer.connection.say(ClockQuestion{Clock::now()});
      return;
    }
    default:
      ByteReader::malformed("agents do not say that");
  }
}

void Agents::hang_up() {
  std::erase_if(peers_, [](const Peer& peer) { return peer.done; });
}

void Agents::take_more() {
  for (Peer& peer : peers_) {
    if (const auto bytes = std::exchange(peer.untaken, 0)) peer.connection.say(Taken{bytes});
  }
}

void Agents::stop(int signal) {
  stop_signal_ = signal;
  for (Peer& peer : peers_) peer.connection.say(Stop{signal});
}

void Agents::pass_on(int signal) {
  if (!missing().empty()) early_.push_back(signal);
  for (Peer& peer : peers_) peer.connection.say(Signal{signal});
}

void Agents::tick(TimePoint now) {
  if (now < ask_at_) return;
  ask_at_ = peers_.empty() ? TimePoint::max() : now + kAskEvery;
  for (Peer& peer : peers_) peer.connection.say(ClockQuestion{now});
}

}  // namespace hvd::runner
