#include "ops/hier/hier_control_plane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ops/net/tcp_control_plane.h"
#include "ops/shm/shm_control_plane.h"
#include "test/support/all_gather.h"
#include "test/support/control_plane_contract.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::seconds;

Placement placement_of(Rank rank, const std::vector<std::string>& hosts) {
  return place(rank, hosts, hosts);
}

// Shared memory inside each host, TCP between them, one thread a rank.
class HierControlPlaneContract
    : public testing::TestWithParam<std::tuple<std::vector<std::string>, test::ControlPlaneCase>> {
};

TEST_P(HierControlPlaneContract, Holds) {
  const auto& [hosts, contract] = GetParam();
  const int size = static_cast<int>(hosts.size());
  std::map<std::string, std::shared_ptr<SharedMemory>> memory;
  for (const std::string& host : hosts) {
    const auto ranks = static_cast<int>(std::count(hosts.begin(), hosts.end(), host));
    if (memory[host] != nullptr) continue;
    memory[host] = SharedMemory::create(Mailboxes::bytes_needed(ranks));
  }
  test::AllGatherPoint point(size);
  test::run_ranks(size, [&, &hosts = hosts, &run = contract.run](Rank rank) {
    const Placement placement = placement_of(rank, hosts);
    const std::vector<ProcessHandle> processes(local_ranks(placement).size(),
                                               ProcessHandle(this_process()));
    auto local = std::make_unique<ShmControlPlane>(
        placement, memory.at(hosts[static_cast<std::size_t>(rank)]), processes);
    test::TestRendezvous others(point, rank, size);
    auto remote = connect_hosts(others, placement, Config{}, &local->doorbell_state(),
                                Clock::now() + seconds(30));
    HierControlPlane plane(std::move(local), std::move(remote));
    run(plane, rank, size);
    point.of(rank)("", Clock::now() + seconds(30));
  });
}

const std::vector<std::string> kTwoByTwo = {"a", "a", "b", "b"};
const std::vector<std::string> kUneven = {"a", "b", "a", "b", "b"};

std::string contract_name(const testing::TestParamInfo<HierControlPlaneContract::ParamType>& info) {
  return std::get<1>(info.param).name + "_" + std::to_string(std::get<0>(info.param).size());
}

INSTANTIATE_TEST_SUITE_P(All, HierControlPlaneContract,
                         testing::Combine(testing::Values(kTwoByTwo, kUneven),
                                          testing::ValuesIn(test::control_plane_contract())),
                         contract_name);

}  // namespace
}  // namespace hvd::engine
