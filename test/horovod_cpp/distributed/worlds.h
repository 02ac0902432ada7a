#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/config/config.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "test/support/message_of.h"
#include "test/support/run_ranks.h"
#include "test/support/sim/sim_world.h"

namespace hvd {

struct WorldsSetup {
  engine::SimOptions sim = {};
  Config config = {};
  WorldOptions world = {};
};

// Runs `body` once per rank, each on a thread with a World of its own; they meet in memory.
inline void run_worlds(int size, const std::function<void(const std::shared_ptr<World>&)>& body,
                       const WorldsSetup& setup = {}) {
  engine::SimWorld sim(size, setup.sim);
  engine::test::run_ranks(size, [&](Rank rank) {
    std::vector<std::unique_ptr<engine::Collective>> collectives;
    collectives.push_back(sim.collective(rank));
    const auto world =
        std::make_shared<World>(std::make_unique<engine::Runtime>(
                                    sim.control_plane(rank), std::move(collectives), setup.config),
                                setup.world);
    body(world);
    world->shutdown();
  });
}

// The same, giving the set of all ranks: what collectives take.
inline void run_sets(int size, const std::function<void(const ProcessSet&)>& body,
                     const WorldsSetup& setup = {}) {
  run_worlds(
      size, [&](const std::shared_ptr<World>& world) { body(world->global_process_set()); }, setup);
}

}  // namespace hvd
