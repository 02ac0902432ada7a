#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/tcp/tcp_control_plane.h"

namespace hvd {

// Every rank's text, by rank. Collective; throws at the deadline.
using AllGather =
    std::function<std::vector<std::string>(const std::string& mine, TimePoint deadline)>;

// This rank's control plane to the ranks of other hosts, connected to its neighbours in the tree
// (core/negotiate/tree.h). All ranks of the world call it; either it succeeds on all of them, or
// all throw what the first one met: UnsupportedError when it could not listen on `interfaces`
// (names with commas, empty for all), StalledError when two could not connect by the deadline.
// `bell` as TcpControlPlane has it.
std::unique_ptr<TcpControlPlane> connect_hosts(const Placement& placement,
                                               const std::string& interfaces, const Doorbell* bell,
                                               const AllGather& all_gather, TimePoint deadline);

}  // namespace hvd
