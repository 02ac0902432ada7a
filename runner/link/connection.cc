#include "runner/link/connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/system/host.h"
#include "ops/net/tcp_socket.h"

namespace hvd::runner {
namespace {

constexpr Duration kConnectLimit = std::chrono::seconds(10);         // of one endpoint
constexpr Duration kGreetLimit = std::chrono::seconds(10);           // from there to the welcome
constexpr Duration kRetryInterval = std::chrono::milliseconds(200);  // before all are tried again

// A few bytes into an empty socket.
bool write_all(const TcpDescriptor& socket, const Bytes& bytes, std::string& why) {
  if (bytes.empty()) return true;
  const auto sent = write_some(socket.get(), bytes, why);
  return sent && *sent == bytes.size();
}

// One attempt at one endpoint: an open connection, or an empty one and why not. Throws
// PeerLostError when hvdrun, proven to be it, does not want this agent.
Connection attempt(const TcpAddress& endpoint, const AgentCall& call, std::string& why) {
  TcpDescriptor socket = connect_to(endpoint, call.link_timeout);
  int error = socket ? 0 : errno;
  const TimePoint connected_by = std::min(call.give_up, Clock::now() + kConnectLimit);
  if (socket) {
    const bool done = wait_until_ready(socket.get(), POLLOUT, connected_by, call.endings);
    error = done ? connect_result(socket.get()) : ETIMEDOUT;
  }
  if (error != 0) {
    why = std::strerror(error);
    return {};
  }
  Connection made;
  Handshake handshake = Handshake::caller(key_bytes(call.to), kTerms, call.number);
  const TimePoint greeted_by = std::min(call.give_up, Clock::now() + kGreetLimit);
  if (!write_all(socket, handshake.take_output(), why)) return {};
  while (handshake.state() == Handshake::State::kGoing) {
    if (!wait_until_ready(socket.get(), POLLIN, greeted_by, call.endings)) {
      why = "no answer";
      return {};
    }
    if (!advance(handshake, socket, made, why)) {
      if (why.empty()) why = "hung up";
      return {};
    }
  }
  if (handshake.state() == Handshake::State::kDone) return made;
  why = "it " + handshake.why();
  if (handshake.fault() != Handshake::Fault::kRefused) return {};
  throw PeerLostError("agent " + std::to_string(call.number) + " on " + host_name() +
                      ": hvdrun at " + to_string(endpoint) + " " + handshake.why());
}

std::string address_of(int socket, int (*end)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  auto* const any = reinterpret_cast<sockaddr*>(&name);
  std::array<char, NI_MAXHOST> text{};
  if (end(socket, any, &length) != 0 || name.ss_family == AF_UNIX) return "";
  const bool known = getnameinfo(any, length, text.data(), static_cast<socklen_t>(text.size()),
                                 nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? text.data() : "";
}

}  // namespace

pollfd Connection::wanted() const {
  return {socket_.get(), static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT)), 0};
}

void Connection::send() {
  std::string why;
  std::size_t at = 0;
  while (socket_ && at < unsent_.size()) {
    const auto sent = write_some(socket_.get(), std::span(unsent_).subspan(at), why);
    if (!sent || *sent == 0) break;  // full, or over: receive() finds out
    at += *sent;
  }
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(at));
}

bool Connection::receive() {
  if (!socket_) return false;
  std::array<std::byte, 1 << 16> buffer;
  std::string why;
  const auto got = read_some(socket_.get(), buffer, why);
  if (!got) return false;
  reader_.feed(std::span(buffer).first(*got));
  return true;
}

std::string Connection::own_address() const {
  return address_of(socket_.get(), getsockname);
}

std::string Connection::peer_address() const {
  return address_of(socket_.get(), getpeername);
}

void Connection::close() {
  socket_.reset();
  unsent_.clear();
}

bool wait_until_ready(int fd, short events, TimePoint limit, std::span<const int> endings) {
  std::vector<pollfd> polls = {{fd, events, 0}};
  for (const int ending : endings) polls.push_back({ending, POLLIN, 0});
  while (true) {
    const int count = poll(polls.data(), polls.size(), milliseconds_until(limit));
    const auto ended = [](const pollfd& each) { return each.revents != 0; };
    if (count > 0 && std::any_of(polls.begin() + 1, polls.end(), ended)) {
      throw PeerLostError("agent on " + host_name() + ": stopped before it had reached hvdrun");
    }
    if (count > 0 && polls[0].revents != 0) return true;
    if (count == 0 && Clock::now() >= limit) return false;
  }
}

bool advance(Handshake& handshake, TcpDescriptor& socket, Connection& made, std::string& why) {
  std::array<std::byte, 1024> buffer;
  const auto got = read_some(socket.get(), buffer, why);
  if (!got) return false;
  const auto came = std::span(buffer).first(*got);
  const std::size_t used = handshake.take(came);
  if (!write_all(socket, handshake.take_output(), why)) return false;
  if (handshake.state() == Handshake::State::kDone) {
    made = Connection(std::move(socket), came.subspan(used));
  }
  return true;
}

std::string read_key_file(const std::string& path, bool make) {
  if (make) {
    const UniqueFd made(open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    const std::string line = random_hex(64) + "\n";
    if (made && write(made.get(), line.data(), line.size()) < 0) unlink(path.c_str());
  }
  std::ifstream file(path);
  std::string key, more;
  if (file >> key && !(file >> more)) return key;
  throw InvalidArgumentError("--key-file: '" + path + "' cannot be read, or is not one word");
}

Connection call_launcher(const AgentCall& call) {
  const std::vector<TcpAddress> endpoints =
      in_order_of_promise(call.to.endpoints, local_addresses());
  while (true) {
    std::string met;
    for (const TcpAddress& endpoint : endpoints) {
      std::string why;
      if (Connection made = attempt(endpoint, call, why)) return made;
      met += " " + to_string(endpoint) + " (" + why + ")";
    }
    const TimePoint next = Clock::now() + kRetryInterval;
    if (next < call.give_up) {
      wait_until_ready(-1, 0, next, call.endings);
      continue;
    }
    throw PeerLostError("agent " + std::to_string(call.number) + " on " + host_name() +
                        " cannot reach hvdrun at" + met +
                        "; is a firewall between the hosts? hvdrun --network-interfaces chooses "
                        "the addresses that are tried");
  }
}

}  // namespace hvd::runner
