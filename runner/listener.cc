#include "runner/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/status.h"
#include "ops/tcp/tcp_endpoint.h"

namespace hvd::runner {
namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// A socket that listens on a port of `address` that the system chooses; empty with errno set.
UniqueFd listen_on(const std::string& address, std::uint16_t& port) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  const bool is_v6 = address.find(':') != std::string::npos;
  void* const binary = is_v6 ? static_cast<void*>(&v6.sin6_addr) : &v4.sin_addr;
  auto* name = is_v6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
  socklen_t length = is_v6 ? sizeof v6 : sizeof v4;
  if (inet_pton(name->sa_family, address.c_str(), binary) != 1) {
    errno = EAFNOSUPPORT;
    return {};
  }
  UniqueFd listening(socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool good = listening && bind(listening.get(), name, length) == 0 &&
                    listen(listening.get(), SOMAXCONN) == 0 &&
                    getsockname(listening.get(), name, &length) == 0;
  if (!good) return {};
  port = ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
  return listening;
}

}  // namespace

std::vector<std::string> listening_addresses(bool remote, const std::string& interfaces) {
  if (!remote) return {"127.0.0.1"};
  const std::vector<LocalAddress> local = local_addresses();
  std::vector<std::string> addresses = addresses_of(interfaces, local);
  // Another machine that calls its own loopback finds somebody else there.
  if (!std::all_of(addresses.begin(), addresses.end(), is_loopback)) {
    std::erase_if(addresses, is_loopback);
  }
  return addresses;
}

Listener::Listener(std::span<const std::string> addresses) {
  std::string why = "no address";
  for (const std::string& address : addresses) {
    std::uint16_t port = 0;
    UniqueFd listening = listen_on(address, port);
    if (!listening) {
      why = address + ": " + std::strerror(errno);
      continue;
    }
    sockets_.push_back(std::move(listening));
    endpoints_.push_back({address, port});
  }
  if (sockets_.empty()) throw InternalError("cannot listen for the ranks: " + why);
}

}  // namespace hvd::runner
