#include "ops/net/tcp_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/base/status.h"

namespace hvd {
namespace {

// One more than the descriptor; 0 = free. Fixed, because a child may not allocate: sockets beyond
// it stay open in children.
std::array<std::atomic<int>, 4096> open_sockets{};
constexpr std::size_t kNowhere = open_sockets.size();

void close_in_child() {
  for (auto& entry : open_sockets) {
    const int fd = entry.exchange(0) - 1;
    if (fd >= 0) close(fd);
  }
}

std::size_t remember(int fd) {
  static const int installed = pthread_atfork(nullptr, nullptr, &close_in_child);
  static_cast<void>(installed);
  for (std::size_t i = 0; i < open_sockets.size(); ++i) {
    int free = 0;
    if (open_sockets[i].compare_exchange_strong(free, fd + 1)) return i;
  }
  return kNowhere;
}

}  // namespace

TcpDescriptor::TcpDescriptor(int fd) : fd_(fd) {
  if (fd >= 0) place_ = remember(fd);
}

void TcpDescriptor::reset() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return;
  // In a child it is closed already, and the number may be another file's.
  if (place_ == kNowhere || open_sockets[place_].exchange(0) == fd + 1) close(fd);
}

namespace {

[[noreturn]] void fail(const char* call, const std::string& host) {
  const int error = errno;
  throw UnsupportedError("cannot listen for the other hosts at " + host + ", " + call + ": " +
                         std::strerror(error));
}

void set(int socket, int level, int option, int value) {
  // Where the system does not have an option, the connection works without.
  static_cast<void>(setsockopt(socket, level, option, &value, sizeof value));
}

void set_up(int socket, Duration link_timeout) {
  using std::chrono::milliseconds;
  const auto limit = std::chrono::duration_cast<milliseconds>(link_timeout).count();
  const int probes = 3;
  const int interval = std::max(1, static_cast<int>(limit / 1000) / (probes + 1));
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, interval);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, probes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit));
}

constexpr int kFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

struct SocketName {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t length = 0;  // 0: the text was no address
};

SocketName name_of(const TcpAddress& address) {
  SocketName name;
  const auto port = htons(address.port);
  if (address.host.find(':') != std::string::npos) {
    name.v6 = {};
    name.v6.sin6_family = AF_INET6;
    name.v6.sin6_port = port;
    const bool valid = inet_pton(AF_INET6, address.host.c_str(), &name.v6.sin6_addr) == 1;
    name.length = valid ? sizeof name.v6 : 0;
  } else {
    name.v4 = {};
    name.v4.sin_family = AF_INET;
    name.v4.sin_port = port;
    const bool valid = inet_pton(AF_INET, address.host.c_str(), &name.v4.sin_addr) == 1;
    name.length = valid ? sizeof name.v4 : 0;
  }
  return name;
}

std::uint16_t port_of(int listener, const std::string& host) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&name), &length) != 0)
    fail("getsockname", host);
  const bool is_v6 = name.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

std::optional<std::size_t> moved(ssize_t count, std::string& why) {
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  why = std::strerror(errno);
  return std::nullopt;
}

}  // namespace

TcpListener listen_on(const std::string& host) {
  TcpListener listener;
  listener.at.host = host;
  const SocketName name = name_of(listener.at);
  listener.socket = TcpDescriptor(socket(name.any.sa_family, kFlags, 0));
  if (!listener.socket) fail("socket", host);
  if (name.length == 0) errno = EAFNOSUPPORT;
  if (name.length == 0 || bind(listener.socket.get(), &name.any, name.length) != 0) {
    fail("bind", host);
  }
  if (listen(listener.socket.get(), SOMAXCONN) != 0) fail("listen", host);
  listener.at.port = port_of(listener.socket.get(), host);
  return listener;
}

TcpDescriptor accept_from(int listener, Duration link_timeout) {
  TcpDescriptor accepted(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted) set_up(accepted.get(), link_timeout);
  return accepted;
}

TcpDescriptor connect_to(const TcpAddress& address, Duration link_timeout) {
  const SocketName name = name_of(address);
  if (name.length == 0) {
    errno = EAFNOSUPPORT;
    return {};
  }
  TcpDescriptor connecting(socket(name.any.sa_family, kFlags, 0));
  if (!connecting) return {};
  set_up(connecting.get(), link_timeout);
  if (connect(connecting.get(), &name.any, name.length) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    connecting.reset();
    errno = error;
  }
  return connecting;
}

int connect_result(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

std::optional<std::size_t> write_some(int socket, std::span<const std::byte> bytes,
                                      std::string& why) {
  return moved(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), why);
}

std::optional<std::size_t> read_some(int socket, std::span<std::byte> bytes, std::string& why) {
  const ssize_t count = recv(socket, bytes.data(), bytes.size(), 0);
  if (count == 0) return std::nullopt;
  return moved(count, why);
}

}  // namespace hvd
