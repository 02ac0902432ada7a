#include <algorithm>

#include "core/base/status.h"
#include "core/config/log.h"
#include "ops/connect/local_socket.h"
#include "ops/connect/rendezvous.h"

namespace hvd::engine {
namespace {

void warn_of_address(const MeetingPoint& point, const std::string& fault) {
  log(LogLevel::kWarning, to_string(point) + ": " + fault + "; rank 0 listens at port " +
                              std::to_string(point.port) +
                              " of its interfaces, but the others look for it at that address");
}

// Where rank 0 listens for those who look for it at `point`: at that address if it is its own. A
// name may be another address here than elsewhere, and an address may lead here from elsewhere only
// (NAT).
std::vector<std::string> hosts_of(const MeetingPoint& point, const std::string& interfaces) {
  const auto local = local_addresses();
  const auto is_own = [&](const std::string& address) {
    return is_loopback(address) || std::any_of(local.begin(), local.end(), [&](const auto& each) {
             return each.address == address;
           });
  };
  const bool is_address = point.where.find(':') != std::string::npos ||
                          point.where.find_first_not_of("0123456789.") == std::string::npos;
  std::vector<std::string> hosts;
  try {
    hosts = resolve(point.where);
    std::erase_if(hosts, [&](const std::string& host) { return !is_own(host); });
    if (is_address && !hosts.empty()) return hosts;
    if (hosts.empty()) warn_of_address(point, "this host has no such address");
  } catch (const UnsupportedError& error) {
    warn_of_address(point, error.what());
  }
  // To the ranks of this host the name leads as it does here: often to 127.0.1.1, which /etc/hosts
  // of Debian has and no interface.
  for (const std::string& host : addresses_of(interfaces, local)) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

}  // namespace

RendezvousSockets RendezvousSockets::of_point(const Meeting& meeting) {
  const MeetingPoint& point = meeting.point;
  if (point.kind == MeetingPoint::Kind::kUnix) return {listen_locally(point.where), {}};
  RendezvousSockets sockets;
  if (!point.local.empty()) sockets.local = listen_locally(point.local);
  const auto hosts = hosts_of(point, meeting.network.network_interfaces);
  try {
    sockets.tcp = listen_on_each(hosts, PortRange{point.port, point.port});
  } catch (const Error& error) {
    const std::string fault =
        "rank 0 cannot listen at " + to_string(point) + ": " + error.what() +
        "; another program or another rank 0 may (torch.distributed takes MASTER_PORT), choose "
        "another port with HVD_RENDEZVOUS=tcp://host:port";
    // The ranks may be on this host all of them, and torch.distributed in the same program.
    if (!sockets.local) throw InvalidArgumentError(fault);
    sockets.obstacle = fault;
  }
  return sockets;
}

RendezvousSockets RendezvousSockets::of_file(const Meeting& meeting, RendezvousNote& note) {
  RendezvousSockets sockets{listen_locally(note.socket), {}};
  if (meeting.one_host == true) return sockets;
  auto hosts = addresses_of(meeting.network.network_interfaces, local_addresses());
  std::erase_if(hosts, is_loopback);  // they lead no other host here
  if (hosts.empty() && !meeting.one_host) return sockets;
  try {
    sockets.tcp = listen_on_each(hosts, meeting.network.port_range);
    note.addresses = endpoint_of(sockets.tcp, meeting.network.advertise_address).addresses;
  } catch (const Error& error) {
    throw InvalidArgumentError("rank 0 of " + to_string(meeting.point) + ": " + error.what());
  }
  return sockets;
}

}  // namespace hvd::engine
