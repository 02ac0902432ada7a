#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/bytes.h"

namespace hvd {

struct TcpAddress {
  std::string host;  // numeric IPv4 or IPv6
  std::uint16_t port = 0;

  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};

// "10.0.0.1:29400", "[fd00::1]:29400"
std::string to_string(const TcpAddress& address);

// Where a rank listens: there and nowhere else.
struct TcpEndpoint {
  std::vector<TcpAddress> addresses;  // no host twice
};

void put_endpoint(ByteWriter& out, const TcpEndpoint& endpoint);
// Throws PeerLostError for bytes that put_endpoint() did not write.
TcpEndpoint get_endpoint(ByteReader& in);

// One address of an interface of this machine that is up.
struct LocalAddress {
  std::string interface;
  std::string address;              // numeric
  std::vector<std::byte> bytes;     // 4 or 16, as on the wire
  std::vector<std::byte> net_mask;  // of the same length
};

// Without IPv6 addresses that are valid on one link only.
std::vector<LocalAddress> local_addresses();

// What a rank publishes: the addresses of the interfaces that `names` lists ("eth0,eth1"), or of
// all of them if it is empty, loopback last. Throws InvalidArgumentError naming the setting
// HOROVOD_GLOO_IFACE, the interface and those that there are.
std::vector<std::string> addresses_of(const std::string& names,
                                      std::span<const LocalAddress> local);

// A peer's addresses in the order in which to try them: those of a network that this machine is
// part of, then the others, then those that this machine has itself (a bridge that every host has
// under one address leads back to the caller; but peers of one machine have nothing else).
std::vector<TcpAddress> in_order_of_promise(std::span<const TcpAddress> addresses,
                                            std::span<const LocalAddress> local);

}  // namespace hvd
