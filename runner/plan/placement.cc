#include "runner/plan/placement.h"

#include <algorithm>

namespace hvd::runner {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

// A host's ranks, in their order.
struct Group {
  const HostFacts* host;
  std::vector<int> ranks;
};

// In the order of their first ranks.
std::vector<Group> group_by_host(std::span<const std::vector<int>> agents,
                                 std::span<const HostFacts> facts) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < agents.size(); ++i) {
    // Machines that were made from one image may have one name.
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& each) {
      return each.host->name == facts[i].name && each.host->boot == facts[i].boot;
    });
    if (group == groups.end()) group = groups.insert(group, {&facts[i], {}});
    group->ranks.insert(group->ranks.end(), agents[i].begin(), agents[i].end());
  }
  for (Group& group : groups) std::sort(group.ranks.begin(), group.ranks.end());
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.ranks[0] < b.ranks[0]; });
  return groups;
}

// An agent of hvdrun's own machine calls it at the first of its addresses, which others may not
// reach.
bool is_hvdruns_own(const HostFacts& host) {
  return host.address == host.own_address;
}

// Of rank 0's host, where those of the others reach it: as hvdrun sees it, or, if it is hvdrun's
// own, as another host's agent does.
std::string address_of_first(std::span<const HostFacts> facts) {
  if (!is_hvdruns_own(facts[0])) return facts[0].address;
  const auto other = std::ranges::find_if_not(facts, is_hvdruns_own);
  return other == facts.end() ? kLoopback : other->own_address;
}

}  // namespace

std::vector<std::vector<int>> place_ranks(int np, std::span<const HostSlots> hosts) {
  std::vector<std::vector<int>> placed;
  int next = 0;
  for (const HostSlots& host : hosts) {
    const int end = std::min(np, next + host.slots);
    if (next == end) break;
    std::vector<int>& ranks = placed.emplace_back();
    while (next < end) ranks.push_back(next++);
  }
  return placed;
}

std::vector<Environment> rank_variables(std::span<const std::vector<int>> agents,
                                        std::span<const HostFacts> facts,
                                        const std::optional<MeetingChoice>& meeting) {
  const std::vector<Group> groups = group_by_host(agents, facts);
  std::size_t size = 0;
  for (const Group& group : groups) size += group.ranks.size();
  Environment common = {{"HOROVOD_SIZE", std::to_string(size)},
                        {"WORLD_SIZE", std::to_string(size)},
                        // By which Lightning knows a launcher like torchrun, in a Slurm job too.
                        {"TORCHELASTIC_RUN_ID", "hvdrun"},
                        {"MASTER_PORT", std::to_string(facts[0].master_port)}};
  common["MASTER_ADDR"] = groups.size() == 1 ? kLoopback : address_of_first(facts);
  if (meeting && groups.size() == 1) common["HVD_RENDEZVOUS"] = meeting->of_one_host;
  if (meeting && groups.size() > 1) {
    const std::string& address = common["MASTER_ADDR"];
    const bool is_v6 = address.find(':') != std::string::npos;
    common["HVD_RENDEZVOUS"] = "tcp://" + (is_v6 ? "[" + address + "]" : address) + ":" +
                               std::to_string(facts[0].meeting_port);
    if (!meeting->key.empty()) common["HVD_RENDEZVOUS_KEY"] = meeting->key;
  }
  std::vector<Environment> variables(size, common);
  for (std::size_t host = 0; host < groups.size(); ++host) {
    const std::vector<int>& ranks = groups[host].ranks;
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      // Horovod's cross ranks: among the hosts that have this local rank.
      const auto has = [&](const Group& each) { return each.ranks.size() > local; };
      const auto here = groups.begin() + static_cast<std::ptrdiff_t>(host);
      Environment& own = variables[static_cast<std::size_t>(ranks[local])];
      own["RANK"] = own["HOROVOD_RANK"] = std::to_string(ranks[local]);
      own["LOCAL_RANK"] = own["HOROVOD_LOCAL_RANK"] = std::to_string(local);
      own["LOCAL_WORLD_SIZE"] = own["HOROVOD_LOCAL_SIZE"] = std::to_string(ranks.size());
      own["GROUP_RANK"] = std::to_string(host);
      own["HOROVOD_CROSS_RANK"] = std::to_string(std::count_if(groups.begin(), here, has));
      own["HOROVOD_CROSS_SIZE"] = std::to_string(std::count_if(groups.begin(), groups.end(), has));
    }
  }
  return variables;
}

}  // namespace hvd::runner
