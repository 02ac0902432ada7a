#include "ops/net/tcp_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
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
#include <memory>

#include "core/base/status.h"
#include "core/base/text.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kMostAddresses = 64;  // of one rank

struct FreeAddresses {
  void operator()(addrinfo* first) const { freeaddrinfo(first); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Those of a host; none, and `error`, if it has none.
Addresses find_addresses(const TcpAddress& of, int flags, int& error) {
  addrinfo hints{};
  hints.ai_flags = flags | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  error = getaddrinfo(of.host.c_str(), std::to_string(of.port).c_str(), &hints, &first);
  return Addresses(first);
}

// What the system calls it; null, and errno, if its host is not a numeric address.
Addresses name_of(const TcpAddress& address) {
  int error = 0;
  Addresses name = find_addresses(address, AI_NUMERICHOST, error);
  if (name == nullptr) errno = EAFNOSUPPORT;
  return name;
}

std::span<const std::byte> bytes_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return std::as_bytes(std::span(&v4.sin_addr, 1));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return std::as_bytes(std::span(&v6.sin6_addr, 1));
}

// Nothing of what is neither IPv4 nor IPv6.
TcpAddress address_of(const sockaddr& name) {
  if (name.sa_family != AF_INET && name.sa_family != AF_INET6) return {};
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(name.sa_family, bytes_of(name).data(), text, sizeof text);
  // Both have the port at the same place.
  return {text, ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port)};
}

TcpAddress end_of(int socket, int (*end)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto& name = reinterpret_cast<sockaddr&>(storage);
  return end(socket, &name, &length) == 0 ? address_of(name) : TcpAddress{};
}

bool usable(const ifaddrs& each) {
  if (each.ifa_addr == nullptr || each.ifa_netmask == nullptr) return false;
  if ((each.ifa_flags & IFF_UP) == 0) return false;
  if (each.ifa_addr->sa_family == AF_INET) return true;
  if (each.ifa_addr->sa_family != AF_INET6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6*>(each.ifa_addr)->sin6_addr);
}

bool shares_network(std::span<const std::byte> address, const LocalAddress& local) {
  if (address.size() != local.bytes.size() || is_loopback(local.address)) return false;
  for (std::size_t i = 0; i < address.size(); ++i) {
    if ((address[i] & local.net_mask[i]) != (local.bytes[i] & local.net_mask[i])) return false;
  }
  return true;
}

void add_once(std::vector<std::string>& all, const std::string& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

}  // namespace

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string to_string(const TcpAddress& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

std::optional<TcpAddress> parse_tcp_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1));
  std::string host(text.substr(0, colon));
  const bool in_brackets = host.starts_with('[') && host.ends_with(']');
  if (in_brackets) host = host.substr(1, host.size() - 2);
  const bool is_v6 = host.find(':') != std::string::npos;
  if (host.empty() || !port || *port == 0 || is_v6 != in_brackets) return std::nullopt;
  return TcpAddress{host, *port};
}

std::vector<std::string> resolve(const std::string& host) {
  int error = 0;
  const Addresses found = find_addresses({host}, 0, error);
  std::vector<std::string> all;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    const TcpAddress address = address_of(*each->ai_addr);
    if (!address.host.empty()) add_once(all, address.host);
  }
  if (!all.empty()) return all;
  throw UnsupportedError("cannot find the address of host '", host,
                         "': ", error != 0 ? gai_strerror(error) : "it has none of IPv4 or IPv6");
}

template <typename Io>
void serialize(Io& io, Fields<Io, TcpEndpoint>& endpoint) {
  io.list(endpoint.addresses, sizeof(std::uint32_t) + sizeof(std::uint16_t), [&](auto& address) {
    io.text(address.host);
    io.number(address.port);
  });
  if (endpoint.addresses.size() > kMostAddresses) {
    ByteReader::malformed("more addresses than a host has");
  }
}
template void serialize(ByteWriter& io, const TcpEndpoint& endpoint);
template void serialize(ByteReader& io, TcpEndpoint& endpoint);

std::vector<LocalAddress> local_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    throw UnsupportedError("cannot list the network interfaces, getifaddrs: ",
                           std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, freeifaddrs);
  std::vector<LocalAddress> all;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (!usable(*each)) continue;
    const auto bytes = bytes_of(*each->ifa_addr);
    const auto mask = bytes_of(*each->ifa_netmask);
    all.push_back({each->ifa_name,
                   address_of(*each->ifa_addr).host,
                   {bytes.begin(), bytes.end()},
                   {mask.begin(), mask.end()}});
  }
  return all;
}

std::vector<std::string> addresses_of(const std::string& names,
                                      std::span<const LocalAddress> local) {
  std::vector<std::string> chosen;
  for (const std::string_view part : split(names, ',')) {
    if (part.empty()) continue;
    const std::string name(part);
    const std::size_t before = chosen.size();
    for (const LocalAddress& each : local) {
      if (each.interface == name) add_once(chosen, each.address);
    }
    if (chosen.size() > before) continue;
    std::vector<std::string> known;
    for (const LocalAddress& each : local) add_once(known, each.interface);
    std::string list;
    for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
    throw InvalidArgumentError("HOROVOD_GLOO_IFACE='", names, "': this machine has no interface '",
                               name, "' with an address; those that are up: ", list);
  }
  if (!chosen.empty()) return chosen;
  for (const bool loopback : {false, true}) {
    for (const LocalAddress& each : local) {
      if (is_loopback(each.address) == loopback) add_once(chosen, each.address);
    }
  }
  chosen.resize(std::min(chosen.size(), kMostAddresses));
  return chosen;
}

std::vector<TcpAddress> in_order_of_promise(std::span<const TcpAddress> addresses,
                                            std::span<const LocalAddress> local) {
  const auto rank_of = [&](const TcpAddress& address) {
    const auto is_own = [&](const LocalAddress& each) { return each.address == address.host; };
    if (std::any_of(local.begin(), local.end(), is_own)) return 2;
    const Addresses name = name_of(address);
    const auto near = [&](const LocalAddress& each) {
      return shares_network(bytes_of(*name->ai_addr), each);
    };
    return name != nullptr && std::any_of(local.begin(), local.end(), near) ? 0 : 1;
  };
  std::vector<TcpAddress> ordered(addresses.begin(), addresses.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  return ordered;
}

TcpAddress own_address(int socket) {
  return end_of(socket, getsockname);
}

TcpAddress peer_address(int socket) {
  return end_of(socket, getpeername);
}

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

[[noreturn]] void fail(int error, const std::string& host, PortRange ports) {
  std::string where = host;
  if (ports.first != 0) where = to_string({host, ports.first});
  if (ports.first != ports.last) {
    where = str_cat("any port of ", host, " from ", ports.first, " to ", ports.last);
  }
  const std::string text = "cannot listen at " + where + ": " + std::strerror(error);
  if (error == EADDRINUSE) throw InvalidArgumentError(text);
  throw UnsupportedError(text);
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

std::optional<std::size_t> moved(ssize_t count, std::string& why) {
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  why = std::strerror(errno);
  return std::nullopt;
}

// False with errno set, EADDRINUSE only if another port may do.
bool listen_at(TcpListener& listener) {
  const Addresses name = name_of(listener.at);
  if (name == nullptr) return false;
  listener.socket = TcpDescriptor(socket(name->ai_family, kFlags, 0));
  if (!listener.socket) return false;
  // A port that an earlier job has just left.
  if (listener.at.port != 0) set(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  return bind(listener.socket.get(), name->ai_addr, name->ai_addrlen) == 0 &&
         ::listen(listener.socket.get(), SOMAXCONN) == 0;
}

}  // namespace

TcpListener listen_on(const std::string& host, PortRange ports, unsigned skip) {
  const unsigned count = ports.last - ports.first + 1U;
  const auto port = [&](unsigned tried) {
    return static_cast<std::uint16_t>(ports.first + (skip % count + tried) % count);
  };
  TcpListener listener{{}, {host, port(0)}};
  for (unsigned tried = 1; !listen_at(listener); ++tried) {
    const int error = errno;
    if (error != EADDRINUSE || tried == count) fail(error, host, ports);
    listener.at.port = port(tried);
  }
  listener.at.port = own_address(listener.socket.get()).port;
  return listener;
}

TcpEndpoint endpoint_of(std::span<const TcpListener> listeners, const std::string& advertised) {
  TcpEndpoint endpoint;
  const auto add = [&](const TcpAddress& address) {
    auto& all = endpoint.addresses;
    if (std::find(all.begin(), all.end(), address) == all.end()) all.push_back(address);
  };
  const auto hosts = advertised.empty() ? std::vector<std::string>() : resolve(advertised);
  for (const TcpListener& listener : listeners) {
    if (advertised.empty()) add(listener.at);
    for (const std::string& host : hosts) add({host, listener.at.port});
  }
  return endpoint;
}

std::vector<TcpListener> listen_on_each(std::span<const std::string> hosts, PortRange ports) {
  std::vector<TcpListener> listeners;
  std::string failures;
  for (const std::string& host : hosts) {
    // An address of IPv6 that is just being made, for instance: it is not published.
    try {
      listeners.push_back(listen_on(host, ports));
    } catch (const UnsupportedError& error) {
      failures += (failures.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  if (!listeners.empty()) return listeners;
  throw UnsupportedError(failures.empty() ? "this machine has no network address that is up"
                                          : failures);
}

std::vector<TcpListener> listen_on_interfaces(const std::string& names, PortRange ports) {
  return listen_on_each(addresses_of(names, local_addresses()), ports);
}

TcpDescriptor accept_from(int listener, Duration link_timeout) {
  TcpDescriptor accepted(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted) set_up(accepted.get(), link_timeout);
  return accepted;
}

TcpDescriptor connect_to(const TcpAddress& address, Duration link_timeout) {
  const Addresses name = name_of(address);
  if (name == nullptr) return {};
  TcpDescriptor connecting(socket(name->ai_family, kFlags, 0));
  if (!connecting) return {};
  set_up(connecting.get(), link_timeout);
  if (connect(connecting.get(), name->ai_addr, name->ai_addrlen) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    connecting.reset();
    errno = error;
  }
  return connecting;
}

void allow_slow_reader(int socket) {
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
}

int connect_result(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

std::optional<std::size_t> write_some(int socket, std::span<iovec> regions, std::string& why) {
  msghdr message{};
  message.msg_iov = regions.data();
  message.msg_iovlen = regions.size();
  return moved(sendmsg(socket, &message, MSG_NOSIGNAL), why);
}

std::optional<std::size_t> read_some(int socket, std::span<iovec> regions, std::string& why) {
  msghdr message{};
  message.msg_iov = regions.data();
  message.msg_iovlen = regions.size();
  const ssize_t count = recvmsg(socket, &message, 0);
  if (count == 0) return std::nullopt;
  return moved(count, why);
}

std::optional<std::size_t> write_some(int socket, std::span<const std::byte> bytes,
                                      std::string& why) {
  iovec region{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return write_some(socket, {&region, 1}, why);
}

std::optional<std::size_t> read_some(int socket, std::span<std::byte> bytes, std::string& why) {
  iovec region{bytes.data(), bytes.size()};
  return read_some(socket, {&region, 1}, why);
}

}  // namespace hvd::engine
