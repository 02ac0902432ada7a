#pragma once

#include <functional>
#include <memory>

#include "core/base/config.h"
#include "horovod_cpp/dist/world.h"
#include "ops/sim/sim_world.h"
#include "test/support/run_ranks.h"

namespace hvd {

// Runs `body` once a rank, each on a thread with a World of its own; they meet in memory.
inline void run_worlds(int size, const std::function<void(const std::shared_ptr<World>&)>& body,
                       SimOptions options = {}) {
  SimWorld sim(size, options);
  test::run_ranks(size, [&](Rank rank) {
    std::vector<std::unique_ptr<Collective>> collectives;
    collectives.push_back(sim.collective(rank));
    const auto world = std::make_shared<World>(
        std::make_unique<Runtime>(sim.control_plane(rank), std::move(collectives), Config{}));
    body(world);
    world->shutdown();
  });
}

}  // namespace hvd
