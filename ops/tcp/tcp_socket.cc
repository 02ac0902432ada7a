#include "ops/tcp/tcp_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/status.h"

namespace hvd {
namespace {

[[noreturn]] void fail(const char* call) {
  throw UnsupportedError(std::string("cannot listen for the other hosts, ") + call + ": " +
                         std::strerror(errno));
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

bool bind_anywhere(int socket, int family) {
  if (family == AF_INET6) {
    set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    return bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  }
  sockaddr_in any{};
  any.sin_family = AF_INET;
  return bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
}

std::uint16_t port_of(int listener) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&name), &length) != 0) fail("getsockname");
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

TcpListener listen_anywhere() {
  TcpListener listener;
  int family = AF_INET6;
  listener.socket = TcpDescriptor(socket(family, kFlags, 0));
  if (!listener.socket || !bind_anywhere(listener.socket.get(), family)) {
    family = AF_INET;  // a kernel without IPv6
    listener.socket = TcpDescriptor(socket(family, kFlags, 0));
    if (!listener.socket) fail("socket");
    if (!bind_anywhere(listener.socket.get(), family)) fail("bind");
  }
  if (listen(listener.socket.get(), SOMAXCONN) != 0) fail("listen");
  listener.port = port_of(listener.socket.get());
  return listener;
}

TcpDescriptor accept_from(int listener, Duration link_timeout) {
  TcpDescriptor accepted(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted) set_up(accepted.get(), link_timeout);
  return accepted;
}

TcpDescriptor connect_to(const std::string& address, std::uint16_t port, Duration link_timeout) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  const bool is_v6 = address.find(':') != std::string::npos;
  void* const binary = is_v6 ? static_cast<void*>(&v6.sin6_addr) : &v4.sin_addr;
  if (inet_pton(is_v6 ? AF_INET6 : AF_INET, address.c_str(), binary) != 1) {
    errno = EAFNOSUPPORT;
    return {};
  }
  TcpDescriptor connecting(socket(is_v6 ? AF_INET6 : AF_INET, kFlags, 0));
  if (!connecting) return {};
  set_up(connecting.get(), link_timeout);
  const auto* name =
      is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  const socklen_t length = is_v6 ? sizeof v6 : sizeof v4;
  if (connect(connecting.get(), name, length) != 0 && errno != EINPROGRESS) {
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
