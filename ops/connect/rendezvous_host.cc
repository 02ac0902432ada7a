#include "ops/connect/rendezvous_host.h"

#include <algorithm>
#include <cerrno>

#include "core/base/deadlines.h"
#include "core/config/log.h"
#include "ops/net/socket_errors.h"

namespace hvd {
namespace {

constexpr std::size_t kLongestText = 1 << 20;      // bytes
constexpr std::size_t kMostStrangers = 256;        // connections that have not proven who they are
constexpr std::chrono::seconds kStrangerLimit{5};  // for proving it
constexpr std::chrono::milliseconds kPause{100};   // when the system is out of descriptors

std::string of_process(std::int64_t process) {
  return " (process " + std::to_string(process) + ")";
}

}  // namespace

RendezvousHost::RendezvousHost(MeetingPoint point, int size, std::string key)
    : point_(std::move(point)), size_(size), key_(std::move(key)), listener_(listen_at(point_)) {}

std::vector<std::string> RendezvousHost::all_gather(const std::string& mine, TimePoint deadline) {
  try {
    collect(deadline);
  } catch (const Error& error) {
    answer(encode_gather_failure(error.status()), Clock::now() + kTellingLimit);
    throw;
  } catch (const std::exception&) {
    answer(encode_gather_failure(interrupted_meeting()), Clock::now() + kTellingLimit);
    throw;
  }
  std::vector<std::string> texts(static_cast<std::size_t>(size_));
  texts[0] = mine;
  for (Guest& guest : guests_) {
    if (guest.rank >= 0) texts[static_cast<std::size_t>(guest.rank)] = std::move(*guest.text);
    guest.text.reset();
  }
  answer(encode_gathered(texts), deadline + kTellingLimit);
  return texts;
}

bool RendezvousHost::complete() const {
  const auto here = std::count_if(guests_.begin(), guests_.end(),
                                  [](const Guest& guest) { return guest.text.has_value(); });
  return here == size_ - 1;
}

Status RendezvousHost::who_is_missing() const {
  std::vector<bool> here(static_cast<std::size_t>(size_), false);
  here[0] = true;
  for (const Guest& guest : guests_) {
    if (guest.text) here[static_cast<std::size_t>(guest.rank)] = true;
  }
  Status status = missing_ranks(here);
  std::string text = status.message() + " at " + to_string(point_);
  if (!refused_.empty()) text += "; somebody was sent away: " + refused_;
  return {status.code(), text};
}

void RendezvousHost::collect(TimePoint deadline) {
  while (!complete()) {
    const bool listens = Clock::now() >= listen_again_;
    std::vector<pollfd> polls = {{listens ? listener_.get() : -1, POLLIN, 0}};
    for (const Guest& guest : guests_) polls.push_back(guest.stream.wanted());
    wait_for(polls, next_look(deadline));
    // Strangers can always say something: the deadline must not depend on there being silence.
    const TimePoint now = Clock::now();
    for (Guest& guest : guests_) serve(guest);
    forget_strangers(now);
    if (polls[0].revents != 0) accept();
    if (now >= deadline && !complete()) who_is_missing().throw_if_error();
  }
}

TimePoint RendezvousHost::next_look(TimePoint deadline) const {
  TimePoint next = deadline;
  if (Clock::now() < listen_again_) next = std::min(next, listen_again_);
  for (const Guest& guest : guests_) {
    if (guest.rank < 0) next = std::min(next, guest.limit);
  }
  return next;
}

void RendezvousHost::forget_strangers(TimePoint now) {
  std::erase_if(guests_, [now](const Guest& guest) {
    return guest.stream.ended() || guest.sent_away || (guest.rank < 0 && now >= guest.limit);
  });
}

void RendezvousHost::accept() {
  const auto is_stranger = [](const Guest& guest) { return guest.rank < 0; };
  const auto strangers = std::count_if(guests_.begin(), guests_.end(), is_stranger);
  if (static_cast<std::size_t>(strangers) >= kMostStrangers) {
    guests_.erase(std::find_if(guests_.begin(), guests_.end(), is_stranger));
  }
  UniqueFd fd = accept_from(listener_, point_);
  if (!fd) {
    if (is_out_of_descriptors(errno)) listen_again_ = Clock::now() + kPause;
    return;
  }
  // Whatever number it has: what is wrong with it is told when it has proven that it is of this
  // job.
  const Handshake::Terms terms{.service = HandshakeService::kRendezvous, .to = 0};
  guests_.emplace_back(std::move(fd),
                       Handshake::listener(std::as_bytes(std::span(key_)), terms, {}),
                       Clock::now() + kStrangerLimit);
}

void RendezvousHost::serve(Guest& guest) {
  try {
    if (!guest.stream.shake_hands()) return check_handshake(guest);
    guest.stream.flush();
    while (const auto frame = guest.stream.receive()) {
      handle(guest, *frame);
      if (guest.sent_away) return;
    }
  } catch (const PeerLostError& error) {
    if (guest.rank >= 0) throw;
    return send_away(guest, error.what());
  }
  if (guest.rank >= 0 && guest.stream.ended()) {
    throw PeerLostError("rank " + std::to_string(guest.rank) + of_process(guest.process) +
                        " ended while the ranks met");
  }
}

void RendezvousHost::check_handshake(Guest& guest) {
  const Handshake& handshake = guest.stream.handshake();
  if (handshake.state() == Handshake::State::kFailed) {
    send_away(guest, "who connected " + handshake.why());
  } else if (guest.stream.ended() && handshake.from() >= 0) {
    send_away(guest, "who said that it was rank " + std::to_string(handshake.from()) +
                         " left before it proved to know the key of this job: it may have "
                         "another one (HVD_RENDEZVOUS_KEY)");
  }
}

void RendezvousHost::handle(Guest& guest, const Frame& frame) {
  if (guest.rank < 0 && frame.type == FrameType::kHello) {
    return welcome(guest, decode_rendezvous_hello(frame.payload));
  }
  if (guest.rank < 0 || frame.type != FrameType::kText || guest.text) {
    ByteReader::malformed("a rank says hello and then one text a gathering");
  }
  guest.text.emplace(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
}

void RendezvousHost::welcome(Guest& guest, const RendezvousHello& hello) {
  const Rank rank = guest.stream.handshake().from();
  try {
    check_place(rank, hello);
  } catch (const Error& error) {
    guest.stream.send(FrameType::kAnswer, encode_gather_failure(error.status()));
    send_away(guest, error.what());
    if (!key_.empty()) throw;
    log(LogLevel::kWarning, "rank 0 at " + to_string(point_) + " sent away what does not fit: " +
                                error.what() + "; it goes on waiting for the ranks of its own");
    return;
  }
  guest.rank = rank;
  guest.process = hello.process;
  guest.stream.allow(kLongestText);
  guest.stream.send(FrameType::kWelcome, {});
}

void RendezvousHost::check_place(Rank rank, const RendezvousHello& hello) const {
  const std::string who = "rank " + std::to_string(rank) + of_process(hello.process);
  if (hello.size != size_) {
    throw MismatchError(who + " was started in a world of " + std::to_string(hello.size) +
                        " ranks, rank 0 in one of " + std::to_string(size_));
  }
  if (rank < 1 || rank >= size_) {
    throw MismatchError(who + ": the ranks that meet rank 0 are numbered 1 to " +
                        std::to_string(size_ - 1));
  }
  for (const Guest& other : guests_) {
    if (other.rank != rank) continue;
    throw MismatchError("two processes, " + std::to_string(other.process) + " and " +
                        std::to_string(hello.process) + ", were both started as rank " +
                        std::to_string(rank) + " of " + std::to_string(size_));
  }
}

void RendezvousHost::send_away(Guest& guest, const std::string& why) {
  guest.sent_away = true;
  refused_ = why;
}

void RendezvousHost::answer(const Bytes& bytes, TimePoint deadline) {
  for (Guest& guest : guests_) {
    if (guest.rank >= 0) guest.stream.send(FrameType::kAnswer, bytes);
  }
  for (Guest& guest : guests_) {
    while (guest.rank >= 0 && !guest.stream.flush()) {
      pollfd ready = guest.stream.wanted();
      ready.events = POLLOUT;
      if (!wait_for({&ready, 1}, deadline)) break;
    }
  }
}

}  // namespace hvd
