#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/config/port_range.h"

namespace hvd::engine {

struct TcpAddress {
  std::string host;  // numeric IPv4 or IPv6
  std::uint16_t port = 0;

  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};

// "10.0.0.1:29400", "[fd00::1]:29400"
std::string to_string(const TcpAddress& address);
// Nothing if `text` is not written like that, with a port from 1 on; the host may be a name.
std::optional<TcpAddress> parse_tcp_address(std::string_view text);

// Where the two ends of a socket are; without a host if they are not of IPv4 or IPv6, or nowhere.
TcpAddress own_address(int socket);
TcpAddress peer_address(int socket);

// Where a rank listens: there and nowhere else.
struct TcpEndpoint {
  std::vector<TcpAddress> addresses;  // no host twice
};

template <typename Io>
void serialize(Io& io, Fields<Io, TcpEndpoint>& endpoint);

// One address of an interface of this machine that is up.
struct LocalAddress {
  std::string interface;
  std::string address;              // numeric
  std::vector<std::byte> bytes;     // 4 or 16, as on the wire
  std::vector<std::byte> net_mask;  // of the same length
};

bool is_loopback(const std::string& address);

// The numeric addresses of a host: `host` itself, if it is one. Throws UnsupportedError that names
// it if there are none; may wait for the system's name service.
std::vector<std::string> resolve(const std::string& host);

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

// What poll() takes to wait until `time`, a day at most; -1, forever, for max().
inline int milliseconds_until(TimePoint time) {
  if (time == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 86'400'000));
}

// Whether accept() failed for want of something that others hold: the connection goes on waiting,
// so its listener stays readable, and a caller that does not pause before the next try spins.
inline bool is_out_of_descriptors(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Owns a socket that children of this process do not keep open: its connection ends with the
// process that made it, whatever that has forked. Thread-safe as far as different ones are.
class TcpDescriptor {
 public:
  TcpDescriptor() = default;
  explicit TcpDescriptor(int fd);
  TcpDescriptor(TcpDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), place_(other.place_) {}
  TcpDescriptor& operator=(TcpDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(place_, other.place_);
    return *this;
  }
  ~TcpDescriptor() { reset(); }
  void reset();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
  std::size_t place_ = 0;  // in the list of what children close
};

}  // namespace hvd::engine

// Non-blocking TCP sockets. What fails for good throws UnsupportedError with the call and its text.
// Ports that are taken are an InvalidArgumentError: the user may choose others.
namespace hvd::engine {

struct TcpListener {
  TcpDescriptor socket;
  TcpAddress at;
};

// At an address of this machine (numeric) and no other, at the first port of `ports` that is free,
// from the one after `skip` others on, and then from the beginning.
TcpListener listen_on(const std::string& host, PortRange ports = {}, unsigned skip = 0);

// At each of these addresses where that works. Throws UnsupportedError, with what failed, if that
// is none. Where the ports are taken at one of them it throws too: who connects to that address
// would reach another program.
std::vector<TcpListener> listen_on_each(std::span<const std::string> hosts, PortRange ports = {});

// At each address of the interfaces that `names` lists, as addresses_of() has them.
std::vector<TcpListener> listen_on_interfaces(const std::string& names, PortRange ports = {});

// What the others need in order to find `listeners`: where they listen or, where that is not empty,
// the same ports of `advertised`, a numeric address or a name. Throws as resolve().
TcpEndpoint endpoint_of(std::span<const TcpListener> listeners, const std::string& advertised);

// The next connection, set up like those of connect_to(); empty with errno set when there is none
// now.
TcpDescriptor accept_from(int listener, Duration link_timeout);

// Starts to connect; whether it worked shows when the socket can be written. A peer that
// acknowledges nothing for `link_timeout` breaks the connection, whether or not something is sent.
// Empty with errno set if it failed at once.
TcpDescriptor connect_to(const TcpAddress& address, Duration link_timeout);

// From now on a peer that acknowledges nothing breaks the connection only while nothing is sent:
// Linux would count the time for which a living peer's buffer is full, too.
void allow_slow_reader(int socket);

// What became of connect_to(), or why the connection broke: 0 or an errno.
int connect_result(int socket);

// Bytes moved; 0 when none can be now. Empty when the connection is over: `why` is "" for an end
// that the peer made in order.
std::optional<std::size_t> write_some(int socket, std::span<const std::byte> bytes,
                                      std::string& why);
std::optional<std::size_t> read_some(int socket, std::span<std::byte> bytes, std::string& why);
// From and to several regions, one after the other.
std::optional<std::size_t> write_some(int socket, std::span<iovec> regions, std::string& why);
std::optional<std::size_t> read_some(int socket, std::span<iovec> regions, std::string& why);

}  // namespace hvd::engine
