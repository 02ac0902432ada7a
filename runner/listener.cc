#include "runner/listener.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/status.h"

namespace hvd::runner {
namespace {

[[noreturn]] void throw_errno(const char* call) {
  throw InternalError(std::string("cannot listen for the ranks: ") + call + ": " +
                      std::strerror(errno));
}

// This machine's IPv4 addresses that other machines can reach.
std::vector<std::string> outside_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) throw_errno("getifaddrs");
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const bool usable = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    addresses.emplace_back(text.data());
  }
  freeifaddrs(first);
  return addresses;
}

}  // namespace

std::string random_key() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw_errno("getrandom");
  }
  std::string key;
  for (const unsigned char byte : bytes) {
    key += "0123456789abcdef"[byte >> 4];
    key += "0123456789abcdef"[byte & 15];
  }
  return key;
}

Listener::Listener(bool remote)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(remote ? INADDR_ANY : INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  if (bind(fd_.get(), reinterpret_cast<const sockaddr*>(&at), length) != 0) throw_errno("bind");
  if (listen(fd_.get(), 1024) != 0) throw_errno("listen");
  if (getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0) {
    throw_errno("getsockname");
  }
  address_ = {random_key(), ntohs(at.sin_port), {}};
  if (remote) address_.hosts = outside_addresses();
  if (address_.hosts.empty()) address_.hosts = {"127.0.0.1"};
}

UniqueFd Listener::accept() {
  UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int on = 1;
  if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  return fd;
}

}  // namespace hvd::runner
