#include "ops/connect/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "core/base/deadlines.h"
#include "core/config/log.h"
#include "core/system/host.h"
#include "core/system/interruptible_waits.h"
#include "ops/connect/introduction.h"
#include "ops/connect/local_socket.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kLongestAnswer = 1 << 30;      // bytes: the texts of all ranks
constexpr std::chrono::milliseconds kFirstPause{1};  // between looks for rank 0; doubled
constexpr std::chrono::milliseconds kLongestPause{50};
constexpr std::chrono::milliseconds kLongestPauseOnNetwork{500};  // spares name servers
// For the answer of the listener there, which may be a process stopped long ago; doubled.
constexpr std::chrono::seconds kFirstProbeTimeout{1};
constexpr std::chrono::seconds kFirstReport{5};

// Where rank 0 may be, in the order in which to look.
using Ways = std::vector<MeetingPoint>;

void add(Ways& ways, std::span<const TcpAddress> addresses) {
  for (const TcpAddress& each : in_order_of_promise(addresses, local_addresses())) {
    ways.push_back({MeetingPoint::Kind::kTcp, each.host, each.port});
  }
}

// None, and `why`, while its file is not there or its name is not known. `key`: what has to be
// known there.
Ways ways_to(const Meeting& meeting, std::string& key, std::string& why) {
  using enum MeetingPoint::Kind;
  const MeetingPoint& point = meeting.point;
  key = meeting.key;
  Ways ways;
  if (point.kind == kUnix) ways.push_back(point);
  if (point.kind == kTcp) {
    if (!point.local.empty()) ways.push_back({kUnix, point.local});
    std::vector<TcpAddress> addresses;
    try {
      for (const std::string& host : resolve(point.where)) addresses.push_back({host, point.port});
    } catch (const UnsupportedError& error) {  // of a pod that is not up yet, for instance
      why = error.what();
    }
    add(ways, addresses);
  }
  if (point.kind != kFile) return ways;
  const auto note = read_rendezvous_file(point.where);
  why = !note ? "there is no such file"
              : "it is from another machine, and rank 0 gave no address for ranks of others";
  if (!note) return ways;
  key += note->secret;
  if (note->machine == boot_id()) ways.push_back({kUnix, note->socket});
  add(ways, note->addresses);
  return ways;
}

}  // namespace

WaitReport::WaitReport(bool wanted, TimePoint deadline)
    : deadline_(deadline),
      next_(wanted ? Clock::now() + kFirstReport : TimePoint::max()),
      pause_(kFirstReport) {}

void WaitReport::say(TimePoint now, const std::string& what) {
  pause_ *= 2;
  next_ = now + pause_;
  const auto left = std::chrono::ceil<std::chrono::seconds>(deadline_ - now).count();
  log(LogLevel::kWarning, what + " (start timeout in " + std::to_string(left) + " s)");
}

RendezvousClient::RendezvousClient(const Meeting& meeting, TimePoint deadline)
    : meeting_(meeting),
      where_(to_string(meeting.point)),
      probe_timeout_(kFirstProbeTimeout),
      report_(meeting.one_host != true, deadline) {
  const bool by_name = meeting.point.kind == MeetingPoint::Kind::kTcp;
  const Duration longest = by_name ? kLongestPauseOnNetwork : kLongestPause;
  for (Duration pause = kFirstPause; !enter(deadline); pause = std::min(2 * pause, longest)) {
    const TimePoint now = Clock::now();
    report_.tell(now, [&] {
      return str_cat("rank ", meeting_.rank, " looks for rank 0 at ", where_, ": ", why_);
    });
    std::this_thread::sleep_for(std::min<Duration>(pause, deadline - now));
    InterruptibleWaits::look();
    // Another look would have no time for an answer, and so lose why the last one failed.
    if (Clock::now() < deadline) continue;
    throw StalledError("rank 0 was not found at " + where_ +
                       " before the start timeout (HOROVOD_START_TIMEOUT): " + why_);
  }
}

bool RendezvousClient::enter(TimePoint deadline) {
  const Ways ways = ways_to(meeting_, key_, why_);
  std::size_t refusals = 0;
  for (const MeetingPoint& point : ways) {
    std::optional<Frame> first;
    try {
      first = greet(point, deadline);
    } catch (const PeerLostError& error) {
      // An address that many hosts have, a bridge's, leads to another program than rank 0.
      why_ = error.what();
      ++refusals;
    }
    if (!first) continue;
    if (static_cast<FrameType>(first->type) == FrameType::kWelcome) return true;
    decode_gathered(first->payload, meeting_.size);  // which throws why the ranks do not meet
  }
  // A file may be that of a dead job, whose ports other programs have by now: rank 0 replaces it.
  const bool may_change = meeting_.point.kind == MeetingPoint::Kind::kFile;
  if (refusals > 0 && refusals == ways.size() && !may_change) {
    throw PeerLostError(
        str_cat("rank ", meeting_.rank, " looked for rank 0 at ", where_, ": ", why_));
  }
  return false;
}

// What rank 0 says first, a welcome or an answer; none, and why_, if it does not. The end of an
// earlier meeting may still be there and vanish with us in its queue, or never answer.
std::optional<Frame> RendezvousClient::greet(const MeetingPoint& point, TimePoint deadline) {
  const TimePoint limit = std::min(deadline, Clock::now() + probe_timeout_);
  TcpDescriptor fd = connect_to(point, meeting_.network.link_timeout, limit, why_);
  if (!fd) return std::nullopt;
  const Handshake::Terms terms{.service = HandshakeService::kRendezvous, .to = 0};
  channel_ = Channel(std::move(fd),
                     Handshake::caller(std::as_bytes(std::span(key_)), terms, meeting_.rank),
                     kRendezvousLimits);
  if (!shake_hands(limit)) {
    probe_timeout_ *= channel_.ended() ? 1 : 2;
    why_ = channel_.ended() ? "it closed the connection" : "the listener there does not answer";
    if (point.kind == MeetingPoint::Kind::kTcp) {
      why_ +=
          "; another program may have that port (torch.distributed takes MASTER_PORT): choose "
          "one with HVD_RENDEZVOUS=tcp://host:port";
    }
    return std::nullopt;
  }
  channel_.allow(kLongestAnswer);
  send_frame(channel_, FrameType::kHello, encode_fields(RendezvousHello{meeting_.size, getpid()}));
  auto frame = await_frame(deadline);
  if (!frame) {
    why_ = channel_.ended() ? "it closed the connection" : "rank 0 does not answer any more";
    return std::nullopt;
  }
  const auto type = static_cast<FrameType>(frame->type);
  if (type != FrameType::kWelcome && type != FrameType::kAnswer)
    ByteReader::malformed("no welcome");
  return frame;
}

// False if the other end has not done its part by the deadline, or is gone. Throws PeerLostError
// if it is not rank 0 of this job.
bool RendezvousClient::shake_hands(TimePoint deadline) {
  while (!channel_.shake_hands()) {
    const Handshake& handshake = channel_.handshake();
    if (handshake.state() == Handshake::State::kFailed) {
      const bool other_key = handshake.fault() == Handshake::Fault::kKey;
      throw PeerLostError(
          "the listener there " + handshake.why() +
          (other_key ? " (HVD_RENDEZVOUS_KEY has to be the same on all ranks)" : ""));
    }
    pollfd ready = channel_.wanted();
    if (channel_.ended() || !wait_for({&ready, 1}, deadline)) return false;
  }
  return true;
}

std::optional<Frame> RendezvousClient::await_frame(TimePoint deadline) {
  while (true) {
    const TimePoint now = Clock::now();  // what has come by then is read
    channel_.read();
    if (auto frame = channel_.next()) return frame;
    channel_.flush();
    if (channel_.ended() || now >= deadline) return std::nullopt;
    pollfd ready = channel_.wanted();
    wait_for({&ready, 1}, std::min(deadline, report_.next()));
    report_.tell(now, [&] {
      return str_cat("rank ", meeting_.rank, " has met rank 0 at ", where_,
                     " and waits for the others");
    });
  }
}

std::vector<std::string> RendezvousClient::all_gather(const std::string& mine, TimePoint deadline) {
  send_frame(channel_, FrameType::kText, std::as_bytes(std::span(mine)));
  const auto frame = await_frame(deadline + kTellingLimit);
  if (!frame && channel_.ended()) {
    throw PeerLostError("rank 0 at " + where_ + " ended during the rendezvous");
  }
  if (!frame) missing_answer().throw_if_error();
  if (static_cast<FrameType>(frame->type) != FrameType::kAnswer) ByteReader::malformed("no answer");
  return decode_gathered(frame->payload, meeting_.size);
}

}  // namespace hvd::engine
