#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "ops/net/tcp_endpoint.h"

namespace hvd {

// Whether accept() failed for want of something that others hold: the connection goes on waiting,
// so its listener stays readable, and who does not wait a while before the next try spins.
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

}  // namespace hvd

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
