#include "ops/connect/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "core/base/deadlines.h"
#include "core/system/host.h"
#include "core/system/interruptible_waits.h"
#include "ops/connect/introduction.h"

namespace hvd {
namespace {

constexpr std::size_t kLongestAnswer = 1 << 30;      // bytes: the texts of all ranks
constexpr std::chrono::milliseconds kFirstPause{1};  // between looks for rank 0; doubled
constexpr std::chrono::milliseconds kLongestPause{50};
// For the answer of who listens there, who may be a stopped process of another day; doubled.
constexpr std::chrono::seconds kFirstProbeTimeout{1};

// Where rank 0's socket is; nothing, and `why`, while its file is not there or says another
// machine.
std::optional<MeetingPoint> socket_of(const MeetingPoint& point, std::string& why) {
  if (point.kind != MeetingPoint::Kind::kFile) return point;
  const auto note = read_rendezvous_file(point.where);
  if (!note) {
    why = "there is no such file";
    return std::nullopt;
  }
  if (note->machine != boot_id()) {
    why =
        "it is from another machine; without MPI all ranks have to be on one: for several start "
        "the job with hvdrun -H host:slots,...";
    return std::nullopt;
  }
  return MeetingPoint{MeetingPoint::Kind::kUnix, note->socket, 0};
}

}  // namespace

RendezvousClient::RendezvousClient(const MeetingPoint& point, Rank rank, int size,
                                   const std::string& key, TimePoint deadline)
    : rank_(rank), size_(size), where_(to_string(point)) {
  std::string why;
  Duration probe_timeout = kFirstProbeTimeout;
  for (Duration pause = kFirstPause; !enter(point, key, deadline, probe_timeout, why);
       pause = std::min<Duration>(2 * pause, kLongestPause)) {
    if (Clock::now() >= deadline) {
      throw StalledError("rank 0 was not at " + where_ +
                         " before the start timeout (HOROVOD_START_TIMEOUT): " + why);
    }
    std::this_thread::sleep_for(std::min<Duration>(pause, deadline - Clock::now()));
    InterruptibleWaits::look();
  }
}

// False, and `why`, if rank 0 is not there yet. The end of an earlier meeting may still be there
// and vanish with us in its queue, or never answer.
bool RendezvousClient::enter(const MeetingPoint& point, const std::string& key, TimePoint deadline,
                             Duration& probe_timeout, std::string& why) {
  const auto socket = socket_of(point, why);
  if (!socket) return false;
  UniqueFd fd = connect_to(*socket, why);
  if (!fd) return false;
  const Handshake::Terms terms{.service = HandshakeService::kRendezvous, .to = 0};
  stream_ = std::make_unique<FrameStream>(
      std::move(fd), Handshake::caller(std::as_bytes(std::span(key)), terms, rank_),
      kLongestAnswer);
  try {
    if (!shake_hands(std::min(deadline, Clock::now() + probe_timeout))) {
      probe_timeout *= stream_->ended() ? 1 : 2;
      why = stream_->ended() ? "it closed the connection" : "who listens there does not answer";
      return false;
    }
    stream_->send(FrameType::kHello, encode_fields(RendezvousHello{size_, getpid()}));
    const auto frame = await_frame(deadline);
    if (!frame) {
      why = stream_->ended() ? "it closed the connection" : "rank 0 does not answer any more";
      return false;
    }
    if (frame->type == FrameType::kAnswer) decode_gathered(frame->payload, size_);
    if (frame->type == FrameType::kWelcome) return true;
    ByteReader::malformed("no welcome");
  } catch (const PeerLostError& error) {
    throw PeerLostError("rank " + std::to_string(rank_) + " looked for rank 0 at " + where_ + ": " +
                        error.what());
  }
}

// False if the other end has not done its part by the deadline, or is gone. Throws PeerLostError
// if it is not rank 0 of this job.
bool RendezvousClient::shake_hands(TimePoint deadline) {
  while (!stream_->shake_hands()) {
    const Handshake& handshake = stream_->handshake();
    if (handshake.state() == Handshake::State::kFailed) {
      const bool other_key = handshake.fault() == Handshake::Fault::kKey;
      throw PeerLostError(
          "who listens there " + handshake.why() +
          (other_key ? " (HVD_RENDEZVOUS_KEY has to be the same on all ranks)" : ""));
    }
    pollfd ready = stream_->wanted();
    if (stream_->ended() || !wait_for({&ready, 1}, deadline)) return false;
  }
  return true;
}

std::optional<Frame> RendezvousClient::await_frame(TimePoint deadline) {
  while (true) {
    if (auto frame = stream_->receive()) return frame;
    stream_->flush();
    pollfd ready = stream_->wanted();
    if (stream_->ended() || !wait_for({&ready, 1}, deadline)) return std::nullopt;
  }
}

std::vector<std::string> RendezvousClient::all_gather(const std::string& mine, TimePoint deadline) {
  stream_->send(FrameType::kText, std::as_bytes(std::span(mine)));
  const auto frame = await_frame(deadline + kTellingLimit);
  if (!frame && stream_->ended()) {
    throw PeerLostError("rank 0 at " + where_ + " ended while the ranks met");
  }
  if (!frame) missing_answer().throw_if_error();
  if (frame->type != FrameType::kAnswer) ByteReader::malformed("no answer");
  return decode_gathered(frame->payload, size_);
}

}  // namespace hvd
