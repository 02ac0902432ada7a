#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/net/tcp_socket.h"

namespace hvd::runner {

// The addresses of this machine on which hvdrun awaits its agents. `remote`: those that other
// machines may reach, of the interfaces that `interfaces` lists ("eth0,ib0") or of all if it is
// empty; else loopback. Throws InvalidArgumentError naming an interface that there is not.
std::vector<std::string> listening_addresses(bool remote, const std::string& interfaces);

// A TCP port on each of some addresses and on no other; not blocking.
class Listener {
 public:
  // Those of `addresses` that the system lets nobody listen on are left out. Throws InternalError
  // if they are all.
  explicit Listener(std::span<const std::string> addresses);

  // Each has a descriptor; readable when somebody connects.
  std::span<const TcpListener> sockets() const { return sockets_; }
  std::vector<TcpAddress> endpoints() const;

 private:
  std::vector<TcpListener> sockets_;
};

}  // namespace hvd::runner
