#include "ops/net/tcp_endpoint.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/base/text.h"

namespace hvd {
namespace {

constexpr std::size_t kMostAddresses = 64;  // of one rank

std::span<const std::byte> bytes_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return std::as_bytes(std::span(&v4.sin_addr, 1));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return std::as_bytes(std::span(&v6.sin6_addr, 1));
}

std::string text_of(int family, std::span<const std::byte> bytes) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, bytes.data(), text, sizeof text);
  return text;
}

std::vector<std::byte> parse(const std::string& address) {
  const bool is_v4 = address.find(':') == std::string::npos;
  std::vector<std::byte> bytes(is_v4 ? sizeof(in_addr) : sizeof(in6_addr));
  if (inet_pton(is_v4 ? AF_INET : AF_INET6, address.c_str(), bytes.data()) != 1) bytes.clear();
  return bytes;
}

bool usable(const ifaddrs& each) {
  if (each.ifa_addr == nullptr || each.ifa_netmask == nullptr) return false;
  if ((each.ifa_flags & IFF_UP) == 0) return false;
  if (each.ifa_addr->sa_family == AF_INET) return true;
  if (each.ifa_addr->sa_family != AF_INET6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6*>(each.ifa_addr)->sin6_addr);
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
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

std::string to_string(const TcpAddress& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

void put_endpoint(ByteWriter& out, const TcpEndpoint& endpoint) {
  out.put(static_cast<std::uint32_t>(endpoint.addresses.size()));
  for (const TcpAddress& address : endpoint.addresses) {
    out.put_string(address.host);
    out.put(address.port);
  }
}

TcpEndpoint get_endpoint(ByteReader& in) {
  TcpEndpoint endpoint;
  const std::size_t count = in.get_count(sizeof(std::uint32_t) + sizeof(std::uint16_t));
  if (count > kMostAddresses) ByteReader::malformed("more addresses than a host has");
  for (std::size_t i = 0; i < count; ++i) {
    TcpAddress& address = endpoint.addresses.emplace_back();
    address.host = in.get_string();
    address.port = in.get<std::uint16_t>();
  }
  return endpoint;
}

std::vector<LocalAddress> local_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    throw UnsupportedError(std::string("cannot list the network interfaces, getifaddrs: ") +
                           std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, freeifaddrs);
  std::vector<LocalAddress> all;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (!usable(*each)) continue;
    const auto bytes = bytes_of(*each->ifa_addr);
    const auto mask = bytes_of(*each->ifa_netmask);
    all.push_back({each->ifa_name,
                   text_of(each->ifa_addr->sa_family, bytes),
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
    throw InvalidArgumentError("HOROVOD_GLOO_IFACE='" + names +
                               "': this machine has no interface '" + name +
                               "' with an address; those that are up: " + list);
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
    const auto bytes = parse(address.host);
    const auto near = [&](const LocalAddress& each) { return shares_network(bytes, each); };
    return std::any_of(local.begin(), local.end(), near) ? 0 : 1;
  };
  std::vector<TcpAddress> ordered(addresses.begin(), addresses.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  return ordered;
}

}  // namespace hvd
