#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "ops/net/tcp_descriptor.h"
#include "ops/net/tcp_endpoint.h"

// Non-blocking TCP sockets. What fails for good throws UnsupportedError with the call and its text.
namespace hvd {

struct TcpListener {
  TcpDescriptor socket;
  TcpAddress at;
};

// At an address of this machine (numeric) and no other, at a port that the system chooses.
TcpListener listen_on(const std::string& host);

// The next connection, set up like those of connect_to(); empty with errno set when there is none
// now.
TcpDescriptor accept_from(int listener, Duration link_timeout);

// Starts to connect; whether it worked shows when the socket can be written. A peer that
// acknowledges nothing for `link_timeout` breaks the connection, whether or not something is sent.
// Empty with errno set if it failed at once.
TcpDescriptor connect_to(const TcpAddress& address, Duration link_timeout);

// What became of connect_to(): 0 or an errno.
int connect_result(int socket);

// Bytes moved; 0 when none can be now. Empty when the connection is over: `why` is "" for an end
// that the peer made in order.
std::optional<std::size_t> write_some(int socket, std::span<const std::byte> bytes,
                                      std::string& why);
std::optional<std::size_t> read_some(int socket, std::span<std::byte> bytes, std::string& why);

}  // namespace hvd
