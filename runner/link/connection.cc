#include "runner/link/connection.h"

#include <array>

#include "ops/net/tcp_socket.h"

namespace hvd::runner {

pollfd Connection::wanted() const {
  return {socket_.get(), static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT)), 0};
}

void Connection::send() {
  std::string why;
  std::size_t at = 0;
  while (socket_ && at < unsent_.size()) {
    const auto sent = write_some(socket_.get(), std::span(unsent_).subspan(at), why);
    if (!sent || *sent == 0) break;  // full, or over: receive() finds out
    at += *sent;
  }
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(at));
}

bool Connection::receive() {
  if (!socket_) return false;
  std::array<std::byte, 1 << 16> buffer;
  std::string why;
  const auto got = read_some(socket_.get(), buffer, why);
  if (!got) return false;
  reader_.feed(std::span(buffer).first(*got));
  return true;
}

void Connection::close() {
  socket_.reset();
  unsent_.clear();
}

}  // namespace hvd::runner
