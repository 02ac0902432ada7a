// What rank 0 says in steady state, by the number of ranks: messages it sends for one tensor, on
// hosts of eight ranks whose leaders form a tree of fan-out 32. Virtual ranks in one process.
//
//   build/cpu/test/bench/messages_bench

#include <cstdio>
#include <string>

#include "test/support/lock_step_cluster.h"

namespace {

constexpr int kTensors = 8;
constexpr int kRanksOfAHost = 8;

void deliver(hvd::engine::test::LockStepCluster& cluster) {
  for (auto all = cluster.events(); !all.empty(); all = cluster.events()) {
    for (const auto& event : all) cluster.perform(event);
  }
}

// One after the other, so that no two share a batch.
void step(hvd::engine::test::LockStepCluster& cluster) {
  for (int i = 0; i < kTensors; ++i) {
    hvd::engine::Request request;
    request.name = "layer" + std::to_string(i) + ".weight";
    request.shapes = {{i + 1, 3}};
    for (hvd::Rank r = 0; r < cluster.size(); ++r) cluster.submit(r, request);
    deliver(cluster);
  }
}

}  // namespace

int main() {
  for (const int size : {8, 64, 256, 1024, 2048, 4096}) {
    const auto trees = hvd::engine::test::hosts_of(size, kRanksOfAHost);
    hvd::engine::test::LockStepCluster cluster(trees, {});
    step(cluster);
    const std::size_t before = cluster.messages_sent(0);
    step(cluster);
    std::printf("{\"section\": \"messages\", \"ranks\": %d, \"value\": %g, \"children\": %zu}\n",
                size, static_cast<double>(cluster.messages_sent(0) - before) / kTensors,
                trees[0].children.size());
    std::fflush(stdout);
  }
  return 0;
}
