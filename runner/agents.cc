#include "runner/agents.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/system/host.h"

namespace hvd::runner {
namespace {

// Clocks drift apart, and an agent that has not answered four times is taken for lost.
Duration ask_interval(Duration link_timeout) {
  return std::min<Duration>(std::chrono::seconds(30), link_timeout / 4);
}

}  // namespace

TimePoint Agents::Peer::here(TimePoint time, TimePoint now) const {
  const auto estimate = clock.at(now);
  Duration offset = estimate ? estimate->offset : Duration::zero();
  // One kernel has one clock, unless its containers have times of their own.
  if (same_boot && estimate && std::chrono::abs(offset) <= estimate->error) offset = {};
  if (!same_boot && !estimate) return now;
  return std::min(now, time - offset);
}

Agents::Rank& Agents::Peer::find(int rank) {
  const auto found = std::find_if(ranks.begin(), ranks.end(),
                                  [&](const Rank& each) { return each.number == rank; });
  if (found == ranks.end()) ByteReader::malformed("another agent has that rank");
  return *found;
}

bool Agents::Peer::done() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const Rank& each) { return each.done; });
}

bool Agents::expects(int number) const {
  if (number == kAnyNumber) return !missing().empty();
  return number >= 0 && std::cmp_less(number, came_.size()) &&
         !came_[static_cast<std::size_t>(number)];
}

void Agents::welcome(Reception::Agent agent, TimePoint now) {
  if (!expects(agent.number)) return;  // two came with one number at once: the first is it
  const auto first_left = std::find(came_.begin(), came_.end(), false) - came_.begin();
  const auto number =
      static_cast<std::size_t>(agent.number == kAnyNumber ? first_left : agent.number);
  came_[number] = true;
  Peer& peer = peers_.emplace_back();
  peer.connection = std::move(agent.connection);
  peer.number = static_cast<int>(number);
  for (const int rank : ranks_[number]) peer.ranks.push_back({.number = rank});
  if (stop_signal_ != 0) peer.connection.say(Stop{stop_signal_});
  peer.connection.say(ClockQuestion{now});
  ask_at_ = std::min(ask_at_, now + ask_interval(link_timeout_));
}

bool Agents::any_came() const {
  return std::find(came_.begin(), came_.end(), true) != came_.end();
}

std::size_t Agents::ranks() const {
  std::size_t count = 0;
  for (const std::vector<int>& of_agent : ranks_) count += of_agent.size();
  return count;
}

std::vector<int> Agents::missing() const {
  std::vector<int> ranks;
  for (std::size_t number = 0; number < came_.size(); ++number) {
    if (!came_[number]) ranks.insert(ranks.end(), ranks_[number].begin(), ranks_[number].end());
  }
  return ranks;
}

std::vector<HostFacts> Agents::facts() const {
  const auto said = [](const std::optional<HostFacts>& facts) { return facts.has_value(); };
  if (running_ || !std::all_of(facts_.begin(), facts_.end(), said)) return {};
  std::vector<HostFacts> facts;
  for (const auto& each : facts_) facts.push_back(*each);
  return facts;
}

void Agents::run(std::span<const Start> programs) {
  running_ = true;
  for (Peer& peer : peers_) {
    for (const Rank& rank : peer.ranks) {
      peer.connection.say(programs[static_cast<std::size_t>(rank.number)], rank.number);
    }
  }
  for (const int signal : early_) pass_on(signal);
}

Agents::Peer* Agents::agent_of(int rank) {
  for (Peer& peer : peers_) {
    for (const Rank& each : peer.ranks) {
      if (each.number == rank) return &peer;
    }
  }
  return nullptr;
}

bool Agents::start(int rank, const Start& program) {
  running_ = true;
  Peer* peer = agent_of(rank);
  if (peer == nullptr) return false;
  peer->find(rank) = {.number = rank};
  peer->connection.say(program, rank);
  return true;
}

void Agents::add_polls(std::vector<pollfd>& polls) const {
  for (const Peer& peer : peers_) polls.push_back(peer.connection.wanted());
}

std::vector<AgentEvent> Agents::serve(std::span<const pollfd> polls, TimePoint now) {
  std::vector<AgentEvent> events;
  std::size_t at = 0;
  for (Peer& peer : peers_) {
    // One that was welcomed in this turn comes last, and poll() did not wait for it.
    const bool ready = at < polls.size() && polls[at].revents != 0;
    ++at;
    bool alive = true;
    try {
      if (ready) {
        peer.connection.flush();
        alive = peer.connection.read();
      }
      while (const auto message = peer.connection ? peer.connection.next() : std::nullopt) {
        peer.silent = {};
        handle(peer, *message, now, events);
      }
    } catch (const PeerLostError&) {
      alive = false;  // an agent of another version
    }
    if (alive && peer.silent < link_timeout_) continue;
    const auto quiet = std::chrono::ceil<std::chrono::milliseconds>(peer.silent);
    for (const Rank& rank : peer.ranks) {
      if (!rank.ended) {
        events.emplace_back(RankEnd{rank.number,
                                    peer.host,
                                    now,
                                    {.kind = EndKind::kLost,
                                     .value = alive ? static_cast<int>(quiet.count()) : 0,
                                     .was_stopped = stop_signal_ != 0}});
      }
      if (!rank.done) events.emplace_back(RankDone{rank.number});
    }
    peer.connection.close();
  }
  std::erase_if(peers_, [](const Peer& peer) { return !peer.connection; });
  return events;
}

void Agents::greet(Peer& peer, const Hello& hello) {
  peer.host = hello.host;
  peer.same_boot = !hello.boot.empty() && hello.boot == engine::boot_id();
  const auto beyond_loopback = [](const std::string& address) {
    return engine::is_loopback(address) ? "" : address;
  };
  facts_[static_cast<std::size_t>(peer.number)] =
      HostFacts{hello.host,
                beyond_loopback(peer.connection.peer_host()),
                beyond_loopback(peer.connection.own_host()),
                hello.master_port,
                hello.meeting_port,
                hello.boot};
}

void Agents::handle(Peer& peer, const Message& message, TimePoint now,
                    std::vector<AgentEvent>& events) {
  switch (message.type) {
    case MessageType::kHello:
      return greet(peer, read<Hello>(message));
    case MessageType::kOutput: {
      Output output = read<Output>(message);
      peer.find(message.rank).untaken += static_cast<std::uint32_t>(output.bytes.size());
      events.emplace_back(RankOutput{message.rank, std::move(output)});
      return;
    }
    case MessageType::kEnd: {
      Rank& rank = peer.find(message.rank);
      if (std::exchange(rank.ended, true)) ByteReader::malformed("a program ends once");
      const ProgramEnd end = read<ProgramEnd>(message);
      events.emplace_back(RankEnd{message.rank, peer.host, peer.here(end.time, now), end});
      return;
    }
    case MessageType::kDone:
      if (!std::exchange(peer.find(message.rank).done, true)) {
        events.emplace_back(RankDone{message.rank});
      }
      return;
    case MessageType::kClockAnswer: {
      const ClockAnswer answer = read<ClockAnswer>(message);
      peer.clock.add({answer.asked, answer.answered, now});
      if (!peer.clock.full()) peer.connection.say(ClockQuestion{Clock::now()});
      return;
    }
    default:
      ByteReader::malformed("agents do not send such a message");
  }
}

void Agents::hang_up() {
  std::erase_if(peers_, [&](const Peer& peer) { return peer.done() || !running_; });
}

void Agents::take_more() {
  for (Peer& peer : peers_) {
    for (Rank& rank : peer.ranks) {
      if (const auto bytes = std::exchange(rank.untaken, 0)) {
        peer.connection.say(Taken{bytes}, rank.number);
      }
    }
  }
}

void Agents::stop(int signal) {
  stop_signal_ = signal;
  for (Peer& peer : peers_) peer.connection.say(Stop{signal});
}

void Agents::pass_on(int signal) {
  if (!running_) return early_.push_back(signal);
  for (Peer& peer : peers_) peer.connection.say(Signal{signal});
}

void Agents::tick(TimePoint now) {
  // In what is longer, hvdrun itself was stopped (Ctrl-Z) or got no processor.
  const Duration passed = std::min(now - std::exchange(ticked_, now), ask_interval(link_timeout_));
  for (Peer& peer : peers_) peer.silent += passed;
  if (now < ask_at_) return;
  ask_at_ = peers_.empty() ? TimePoint::max() : now + ask_interval(link_timeout_);
  for (Peer& peer : peers_) peer.connection.say(ClockQuestion{now});
}

}  // namespace hvd::runner
