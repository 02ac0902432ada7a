#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/config/config.h"
#include "core/runtime/runtime.h"
#include "test/core/runtime/submissions.h"
#include "test/support/sim/sim_world.h"

namespace hvd::engine::test {

// One Runtime per rank, meeting in memory.
class SimRanks {
 public:
  using Wrap = std::function<std::unique_ptr<Collective>(Rank, std::unique_ptr<Collective>)>;
  using Configs = std::function<Config(Rank)>;

  // `wrap` may put something in front of a rank's collective.
  explicit SimRanks(int size, SimOptions options = {}, const Config& config = {},
                    const Wrap& wrap = {})
      : SimRanks([&](Rank) { return config; }, size, options, wrap) {}
  SimRanks(const Configs& config_of, int size, SimOptions options = {}, const Wrap& wrap = {})
      : world(size, options) {
    for (Rank rank = 0; rank < size; ++rank) add(rank, config_of(rank), wrap);
  }

  Runtime& operator[](Rank rank) { return *runtimes[static_cast<std::size_t>(rank)]; }
  int size() const { return world.size(); }

  SimWorld world;
  std::vector<std::unique_ptr<Runtime>> runtimes;

 private:
  void add(Rank rank, const Config& config, const Wrap& wrap) {
    std::vector<std::unique_ptr<Collective>> collectives;
    auto collective = world.collective(rank);
    collectives.push_back(wrap ? wrap(rank, std::move(collective)) : std::move(collective));
    runtimes.push_back(
        std::make_unique<Runtime>(world.control_plane(rank), std::move(collectives), config));
  }
};

}  // namespace hvd::engine::test
