#include "runner/link/connection.h"

#include <algorithm>
#include <array>

#include "core/base/status.h"
#include "ops/net/tcp_endpoint.h"
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

namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
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
    try {
      sockets_.push_back(listen_on(address));
    } catch (const UnsupportedError& error) {
      why = error.what();
    }
  }
  if (sockets_.empty()) throw InternalError("cannot listen for the ranks: " + why);
}

std::vector<TcpAddress> Listener::endpoints() const {
  std::vector<TcpAddress> all;
  for (const TcpListener& each : sockets_) all.push_back(each.at);
  return all;
}

}  // namespace hvd::runner
