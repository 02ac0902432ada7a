#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/plan/hosts.h"

namespace hvd::runner {

// What an agent said of its host, and what its connection shows.
struct HostFacts {
  std::string name;
  // Numeric; empty if they are loopback's.
  std::string address;      // as hvdrun sees it
  std::string own_address;  // of hvdrun, as the agent sees it
  std::uint16_t master_port = 0;
  std::uint16_t meeting_port = 0;  // TCP ports that are free there
  std::string boot = {};           // boot_id()
};

// The ranks of each host, in their order: each host gets as many as it has slots, the last one what
// is left. Hosts without a rank are left out. Pure.
std::vector<std::vector<int>> place_ranks(int np, std::span<const HostSlots> hosts);

// Where ranks meet without MPI.
struct MeetingChoice {
  std::string of_one_host;  // HVD_RENDEZVOUS if all are on one
  std::string key;          // HVD_RENDEZVOUS_KEY if they are not; "" = what their environment has
};

// What tells each rank its place, by rank: HOROVOD_RANK and so on, RANK and so on as torchrun sets
// them, MASTER_ADDR and MASTER_PORT; and where it meets the others, if `meeting` says so. `agents`:
// the ranks of each agent, `facts` of its host. Agents of one host name and boot share a host.
// Pure.
std::vector<Environment> rank_variables(std::span<const std::vector<int>> agents,
                                        std::span<const HostFacts> facts,
                                        const std::optional<MeetingChoice>& meeting);

}  // namespace hvd::runner
