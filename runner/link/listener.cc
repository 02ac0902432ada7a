#include "runner/link/listener.h"

#include <algorithm>

#include "core/base/status.h"
#include "ops/net/tcp_endpoint.h"

namespace hvd::runner {
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
