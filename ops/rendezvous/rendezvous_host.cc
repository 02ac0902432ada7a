#include "ops/rendezvous/rendezvous_host.h"

#include <algorithm>

namespace hvd {
namespace {

constexpr std::size_t kLongestText = 1 << 20;  // bytes
constexpr std::size_t kMostStrangers = 256;    // connections that have not said who they are

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
    answer(encode_gather_failure(error.status()), Clock::now() + kAnswerGrace);
    throw;
  } catch (const std::exception&) {
    answer(encode_gather_failure(interrupted_meeting()), Clock::now() + kAnswerGrace);
    throw;
  }
  std::vector<std::string> texts(static_cast<std::size_t>(size_));
  texts[0] = mine;
  for (Guest& guest : guests_) {
    if (guest.rank >= 0) texts[static_cast<std::size_t>(guest.rank)] = std::move(*guest.text);
    guest.text.reset();
  }
  answer(encode_gathered(texts), deadline + kAnswerGrace);
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
    std::vector<pollfd> polls = {{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) polls.push_back(guest.stream.wanted());
    if (!wait_for(polls, deadline)) who_is_missing().throw_if_error();
    for (Guest& guest : guests_) serve(guest);
    std::erase_if(guests_,
                  [](const Guest& guest) { return guest.stream.ended() || guest.sent_away; });
    if (polls[0].revents == 0) continue;
    const auto is_stranger = [](const Guest& guest) { return guest.rank < 0; };
    const auto strangers = std::count_if(guests_.begin(), guests_.end(), is_stranger);
    if (static_cast<std::size_t>(strangers) >= kMostStrangers) {
      guests_.erase(std::find_if(guests_.begin(), guests_.end(), is_stranger));
    }
    if (UniqueFd fd = accept_from(listener_, point_)) guests_.emplace_back(std::move(fd));
  }
}

void RendezvousHost::serve(Guest& guest) {
  try {
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
  if (hello.key != key_) {
    const Status why(
        StatusCode::kTransport,
        "rank 0 at " + to_string(point_) +
            " belongs to another job: its key (HVD_RENDEZVOUS_KEY) is not that of rank " +
            std::to_string(hello.rank) + of_process(hello.process));
    guest.stream.send(FrameType::kAnswer, encode_gather_failure(why));
    return send_away(guest, why.message());
  }
  try {
    check_place(hello);
  } catch (const Error& error) {
    guest.stream.send(FrameType::kAnswer, encode_gather_failure(error.status()));
    guest.sent_away = true;
    throw;
  }
  guest.rank = hello.rank;
  guest.process = hello.process;
  guest.stream.allow(kLongestText);
  guest.stream.send(FrameType::kWelcome, {});
}

void RendezvousHost::check_place(const RendezvousHello& hello) const {
  const std::string who = "rank " + std::to_string(hello.rank) + of_process(hello.process);
  if (hello.size != size_) {
    throw MismatchError(who + " was started in a world of " + std::to_string(hello.size) +
                        " ranks, rank 0 in one of " + std::to_string(size_));
  }
  if (hello.rank < 1 || hello.rank >= size_) {
    throw MismatchError(who + ": the ranks that meet rank 0 are numbered 1 to " +
                        std::to_string(size_ - 1));
  }
  for (const Guest& other : guests_) {
    if (other.rank != hello.rank) continue;
    throw MismatchError("two processes, " + std::to_string(other.process) + " and " +
                        std::to_string(hello.process) + ", were both started as rank " +
                        std::to_string(hello.rank) + " of " + std::to_string(size_));
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
