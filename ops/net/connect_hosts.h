#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "ops/net/tcp_control_plane.h"

namespace hvd {

// Every rank's text, by rank. Collective; throws at the deadline.
using AllGather =
    std::function<std::vector<std::string>(const std::string& mine, TimePoint deadline)>;

// This rank's control plane to the ranks of other hosts, connected to its neighbours in the tree
// (core/base/topology.h). All ranks of the world call it; either it succeeds on all of them, or
// all throw what the first one met: UnsupportedError when it could not listen on the interfaces
// that `config` names, StalledError when two could not connect by the deadline. `bell` as
// TcpControlPlane has it.
//
// The key of the connections is drawn by rank 0 and travels over `all_gather`: they are as safe as
// what that goes over.
std::unique_ptr<TcpControlPlane> connect_hosts(const Placement& placement, const Config& config,
                                               const Doorbell* bell, const AllGather& all_gather,
                                               TimePoint deadline);

}  // namespace hvd
