#include "runner/link/connection.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
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
constexpr Duration kKeyLimit = std::chrono::seconds(10);  // of a pipe that the key comes through
constexpr std::streamoff kLongestKey = 4096;              // bytes of its file

// One attempt at one endpoint: an open connection, or an empty one and why not. Throws
// PeerLostError when hvdrun, proven to be it, does not want this agent.
Connection attempt(const engine::TcpAddress& endpoint, const AgentCall& call, std::string& why) {
  engine::TcpDescriptor socket = engine::connect_to(endpoint, call.link_timeout);
  int error = socket ? 0 : errno;
  const TimePoint connected_by = std::min(call.give_up, Clock::now() + kConnectLimit);
  if (socket) {
    const bool done = wait_until_ready(socket.get(), POLLOUT, connected_by, call.endings);
    error = done ? engine::connect_result(socket.get()) : ETIMEDOUT;
  }
  if (error != 0) {
    why = std::strerror(error);
    return {};
  }
  Connection made(std::move(socket),
                  engine::Handshake::caller(key_bytes(call.to), kTerms, call.number));
  const TimePoint greeted_by = std::min(call.give_up, Clock::now() + kGreetLimit);
  while (!made.shake_hands()) {
    const engine::Handshake& handshake = made.handshake();
    if (handshake.state() == engine::Handshake::State::kFailed) {
      why = "it " + handshake.why();
      if (handshake.fault() != engine::Handshake::Fault::kRefused) return {};
      throw PeerLostError(described(call) + ": hvdrun at " + to_string(endpoint) + " " +
                          handshake.why());
    }
    if (made.ended()) {
      why = made.end().empty() ? "hung up" : made.end();
      return {};
    }
    if (!wait_until_ready(made.wanted().fd, POLLIN, greeted_by, call.endings)) {
      why = "no answer";
      return {};
    }
  }
  return made;
}

}  // namespace

bool wait_until_ready(int fd, short events, TimePoint limit, std::span<const int> endings) {
  std::vector<pollfd> polls = {{fd, events, 0}};
  for (const int ending : endings) polls.push_back({ending, POLLIN, 0});
  while (true) {
    const int count = poll(polls.data(), polls.size(), engine::milliseconds_until(limit));
    const auto ended = [](const pollfd& each) { return each.revents != 0; };
    if (count > 0 && std::any_of(polls.begin() + 1, polls.end(), ended)) {
      throw PeerLostError("agent on " + engine::host_name() +
                          ": stopped before it had reached hvdrun");
    }
    if (count > 0 && polls[0].revents != 0) return true;
    if (count == 0 && Clock::now() >= limit) return false;
  }
}

std::optional<Message> Connection::next() {
  auto frame = engine::Channel::next();
  if (!frame) return std::nullopt;
  return Message{static_cast<MessageType>(frame->type), frame->rank, std::move(frame->payload)};
}

std::string read_key_file(const std::string& path, bool make) {
  if (make && access(path.c_str(), F_OK) != 0) {  // has its name only when it is whole
    const std::string draft = path + "." + engine::random_hex(16);
    const UniqueFd made(open(draft.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    const std::string line = engine::random_hex(64) + "\n";
    const bool whole = made && write(made.get(), line.data(), line.size()) == std::ssize(line);
    if (whole && link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) {
      rename(draft.c_str(), path.c_str());  // the file system has no links
    }
    unlink(draft.c_str());
  }
  const UniqueFd opened(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const TimePoint limit = Clock::now() + kKeyLimit;
  std::stringstream file;
  std::array<char, 256> part;
  for (ssize_t got = 1; opened && got > 0 && file.tellp() < kLongestKey &&
                        wait_until_ready(opened.get(), POLLIN, limit, {});) {
    got = ::read(opened.get(), part.data(), part.size());
    file.write(part.data(), std::max<ssize_t>(got, 0));
  }
  std::string key, more;
  if (file.tellp() < kLongestKey && file >> key && !(file >> more)) return key;
  throw InvalidArgumentError("--key-file: '", path, "' cannot be read, or is not one word");
}

std::string described(const AgentCall& call) {
  return str_cat("agent ", call.number, " on ", engine::host_name());
}

Connection call_launcher(const AgentCall& call) {
  const std::vector<engine::TcpAddress> endpoints =
      in_order_of_promise(call.to.endpoints, engine::local_addresses());
  while (true) {
    std::string met;
    for (const engine::TcpAddress& endpoint : endpoints) {
      std::string why;
      if (Connection made = attempt(endpoint, call, why)) return made;
      met += " " + to_string(endpoint) + " (" + why + ")";
    }
    const TimePoint next = Clock::now() + kRetryInterval;
    if (next < call.give_up) {
      wait_until_ready(-1, 0, next, call.endings);
      continue;
    }
    throw PeerLostError(described(call) + " cannot reach hvdrun at" + met +
                        "; is a firewall between the hosts? hvdrun --network-interfaces chooses "
                        "the addresses that are tried");
  }
}

}  // namespace hvd::runner
