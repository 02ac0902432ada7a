#include "ops/connect/rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/deadlines.h"
#include "core/config/log.h"
#include "ops/connect/local_socket.h"
#include "ops/net/tcp_socket.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kLongestText = 1 << 20;  // bytes
constexpr std::size_t kMaxUnauthenticatedPeers =
    256;  // connections that have not proven who they are
constexpr std::chrono::seconds kUnauthenticatedLimit{5};  // for proving it
constexpr std::chrono::milliseconds kPause{100};          // when the system is out of descriptors
// For ranks that have not come when the gathering fails: twice as long as they wait between two
// looks. Later they would look in vain, until their start timeout.
constexpr std::chrono::seconds kLateRanksLimit{1};

std::string described(Rank rank, std::int64_t process) {
  return str_cat("rank ", rank, " (process ", process, ")");
}

}  // namespace

RendezvousServer::RendezvousServer(Meeting meeting, RendezvousSockets sockets, std::string key,
                                   std::unique_ptr<RendezvousFile> file)
    : meeting_(std::move(meeting)),
      where_(to_string(meeting_.point)),
      key_(std::move(key)),
      sockets_(std::move(sockets)),
      report_(false, TimePoint::max()),
      file_(std::move(file)) {}

std::vector<std::string> RendezvousServer::all_gather(const std::string& mine, TimePoint deadline) {
  report_ = WaitReport(meeting_.one_host != true, deadline);
  failure_ = {};
  try {
    collect(deadline);
  } catch (const Error& error) {
    answer(encode_gather_failure(error.status()), Clock::now() + kTellingLimit);
    tell_late_ranks(error.status(), std::min(deadline, Clock::now() + kLateRanksLimit));
    throw;
  } catch (const std::exception&) {
    answer(encode_gather_failure(interrupted_meeting()), Clock::now() + kTellingLimit);
    throw;
  }
  std::vector<std::string> texts(static_cast<std::size_t>(meeting_.size));
  texts[0] = mine;
  for (Client& client : clients_) {
    if (client.rank >= 0) texts[static_cast<std::size_t>(client.rank)] = std::move(*client.text);
    client.text.reset();
  }
  answer(encode_gathered(texts), deadline + kTellingLimit);
  return texts;
}

bool RendezvousServer::complete() const {
  const auto here = std::count_if(clients_.begin(), clients_.end(),
                                  [](const Client& client) { return client.text.has_value(); });
  return here == meeting_.size - 1;
}

std::vector<bool> RendezvousServer::who_is_here() const {
  std::vector<bool> here(static_cast<std::size_t>(meeting_.size), false);
  here[0] = true;
  for (const Client& client : clients_) {
    if (client.text) here[static_cast<std::size_t>(client.rank)] = true;
  }
  return here;
}

Status RendezvousServer::who_is_missing() const {
  const Status status = missing_ranks(who_is_here());
  return {status.code(), status.message() + details()};
}

std::string RendezvousServer::progress() const {
  const std::vector<bool> here = who_is_here();
  const std::string missing = list_of_missing(here);
  return std::to_string(std::count(here.begin(), here.end(), true)) + " of " +
         std::to_string(meeting_.size) + " ranks are here, waiting for rank" +
         (missing.find_first_of(", ") == std::string::npos ? " " : "s ") + missing + details();
}

std::string RendezvousServer::details() const {
  std::string text = " at " + where_;
  if (!sockets_.obstacle.empty()) text += ", where no other host can come: " + sockets_.obstacle;
  if (!refused_.empty()) text += "; a peer was turned away: " + refused_;
  return text;
}

void RendezvousServer::collect(TimePoint deadline) {
  while (!complete()) {
    const TimePoint now = look(deadline);
    if (complete()) return;
    if (now >= deadline) who_is_missing().throw_if_error();
    report_.tell(now, [this] { return progress(); });
  }
}

// Does what can be done by the deadline, once. Unauthenticated peers can always say something: the
// deadline must not depend on there being silence, and so this returns when it looked.
TimePoint RendezvousServer::look(TimePoint deadline) {
  const bool listens = Clock::now() >= listen_again_;
  std::vector<pollfd> polls = {{listens ? sockets_.local.get() : -1, POLLIN, 0}};
  for (const TcpListener& each : sockets_.tcp) {
    polls.push_back({listens ? each.socket.get() : -1, POLLIN, 0});
  }
  const std::size_t listeners = polls.size();
  for (const Client& client : clients_) polls.push_back(client.channel.wanted());
  wait_for(polls, next_look(deadline));
  const TimePoint now = Clock::now();
  for (Client& client : clients_) serve(client);
  forget_unauthenticated(now);
  for (std::size_t i = 0; i < listeners; ++i) accept(polls[i]);
  return now;
}

void RendezvousServer::tell_late_ranks(const Status& failure, TimePoint limit) {
  failure_ = failure;
  late_ = meeting_.size - 1 - static_cast<int>(std::erase_if(clients_, [](const Client& client) {
            return client.rank >= 0;
          }));
  while (late_ > 0 && look(limit) < limit) {
  }
}

TimePoint RendezvousServer::next_look(TimePoint deadline) const {
  TimePoint next = std::min(deadline, report_.next());
  if (Clock::now() < listen_again_) next = std::min(next, listen_again_);
  for (const Client& client : clients_) {
    if (client.rank < 0) next = std::min(next, client.limit);
  }
  return next;
}

void RendezvousServer::forget_unauthenticated(TimePoint now) {
  std::erase_if(clients_, [now](const Client& client) {
    return client.channel.ended() || client.sent_away || (client.rank < 0 && now >= client.limit);
  });
}

void RendezvousServer::accept(const pollfd& listening) {
  if (listening.revents == 0) return;
  const auto is_unauthenticated = [](const Client& client) { return client.rank < 0; };
  const auto unauthenticated = std::count_if(clients_.begin(), clients_.end(), is_unauthenticated);
  if (static_cast<std::size_t>(unauthenticated) >= kMaxUnauthenticatedPeers) {
    clients_.erase(std::find_if(clients_.begin(), clients_.end(), is_unauthenticated));
  }
  const bool is_local = listening.fd == sockets_.local.get();
  TcpDescriptor fd = is_local ? TcpDescriptor(accept_locally(sockets_.local).release())
                              : accept_from(listening.fd, meeting_.network.link_timeout);
  if (!fd) {
    if (is_out_of_descriptors(errno)) listen_again_ = Clock::now() + kPause;
    return;
  }
  // Whatever number it has: what is wrong with it is told when it has proven that it is of this
  // job.
  const Handshake::Terms terms{.service = HandshakeService::kRendezvous, .to = 0};
  clients_.emplace_back(std::move(fd),
                        Handshake::listener(std::as_bytes(std::span(key_)), terms, {}),
                        Clock::now() + kUnauthenticatedLimit);
}

void RendezvousServer::serve(Client& client) {
  try {
    if (!client.channel.shake_hands()) return check_handshake(client);
    client.channel.flush();
    client.channel.read();
    while (const auto frame = client.channel.next()) {
      handle(client, *frame);
      if (client.sent_away) return;
    }
  } catch (const PeerLostError& error) {
    if (client.rank >= 0) throw;
    return send_away(client, error.what());
  }
  if (client.rank >= 0 && client.channel.ended()) {
    throw PeerLostError(described(client.rank, client.process) + " ended during the rendezvous");
  }
}

void RendezvousServer::check_handshake(Client& client) {
  const Handshake& handshake = client.channel.handshake();
  if (handshake.state() == Handshake::State::kFailed) {
    send_away(client, "a peer that connected " + handshake.why());
  } else if (client.channel.ended() && handshake.from() >= 0) {
    send_away(client,
              str_cat("a peer that said it was rank ", handshake.from(),
                      " left before it proved to know the key of this job: it may have another one "
                      "(HVD_RENDEZVOUS_KEY)"));
  }
}

void RendezvousServer::handle(Client& client, const Frame& frame) {
  const auto type = static_cast<FrameType>(frame.type);
  if (client.rank < 0 && type == FrameType::kHello) {
    return welcome(client, decode_fields<RendezvousHello>(frame.payload));
  }
  if (client.rank < 0 || type != FrameType::kText || client.text) {
    ByteReader::malformed("a rank says hello and then one text per gathering");
  }
  client.text = to_text(frame.payload);
}

void RendezvousServer::welcome(Client& client, const RendezvousHello& hello) {
  const Rank rank = client.channel.handshake().from();
  if (!failure_.ok()) {
    send_frame(client.channel, FrameType::kAnswer, encode_gather_failure(failure_));
    client.sent_away = true;
    --late_;
    return;
  }
  try {
    check_place(rank, hello);
  } catch (const Error& error) {
    send_frame(client.channel, FrameType::kAnswer, encode_gather_failure(error.status()));
    send_away(client, error.what());
    // The secret of a file is no proof of being of this job: a rank of an earlier one may read it.
    if (!meeting_.key.empty()) throw;
    // Once: whoever reaches a port without a key can make this happen. details() has the last one.
    if (!std::exchange(warned_, true)) {
      log(LogLevel::kWarning, "rank 0 at " + where_ + " turned away a process: " + error.what() +
                                  "; it goes on waiting for its own ranks");
    }
    return;
  }
  client.rank = rank;
  client.process = hello.process;
  client.channel.allow(kLongestText);
  send_frame(client.channel, FrameType::kWelcome, {});
}

void RendezvousServer::check_place(Rank rank, const RendezvousHello& hello) const {
  const std::string who = described(rank, hello.process);
  if (hello.size != meeting_.size) {
    throw MismatchError(str_cat(who, " was started in a world of ", hello.size,
                                " ranks, rank 0 in one of ", meeting_.size));
  }
  if (rank < 1 || rank >= meeting_.size) {
    throw MismatchError(
        str_cat(who, ": the ranks that connect to rank 0 are numbered 1 to ", meeting_.size - 1));
  }
  for (const Client& other : clients_) {
    if (other.rank != rank) continue;
    throw MismatchError(str_cat("two processes, ", other.process, " and ", hello.process,
                                ", were both started as rank ", rank, " of ", meeting_.size));
  }
}

void RendezvousServer::send_away(Client& client, const std::string& why) {
  client.sent_away = true;
  refused_ = why;
}

void RendezvousServer::answer(const Bytes& bytes, TimePoint deadline) {
  for (Client& client : clients_) {
    if (client.rank >= 0) send_frame(client.channel, FrameType::kAnswer, bytes);
  }
  for (Client& client : clients_) {
    while (client.rank >= 0 && !client.channel.flush()) {
      pollfd ready = client.channel.wanted();
      ready.events = POLLOUT;
      if (!wait_for({&ready, 1}, deadline)) break;
    }
  }
}

}  // namespace hvd::engine
