#include "test/support/sim/sim_world.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "test/support/sim/sim_collective.h"

namespace hvd::engine {
namespace {

// Hosts fill up in order, so that only the last one may have fewer ranks.
Placement placement_in(const SimState& world, Rank rank) {
  Placement placement{rank, {}, {}};
  for (Rank each = 0; each < world.size; ++each) {
    const int host = each / world.options.ranks_per_host;
    if (host == placement.hosts())
      placement.host_names.push_back("sim-host-" + std::to_string(host));
    placement.host_of.push_back(host);
  }
  return placement;
}

class SimControlPlane final : public ControlPlane {
 public:
  SimControlPlane(std::shared_ptr<SimState> world, Rank rank)
      : ControlPlane(placement_in(*world, rank)), world_(std::move(world)), rank_(rank) {}

  void send(Rank to, std::span<const std::byte> message) override {
    world_->network.send(rank_, to, message);
  }
  std::optional<Message> poll() override { return world_->network.poll(rank_); }
  Doorbell& doorbell() noexcept override { return world_->network.doorbell(rank_); }
  // Nobody rings when a delay is over.
  std::optional<Duration> poll_interval() const override {
    if (world_->options.max_delay == Duration::zero()) return std::nullopt;
    return std::chrono::microseconds(50);
  }
  void abort(const Status& why) noexcept override { world_->network.cut(rank_, why.message()); }

 private:
  std::shared_ptr<SimState> world_;
  Rank rank_;
};

SimOptions complete(SimOptions options, int size) {
  if (size < 1) {
    throw InvalidArgumentError("a world of " + std::to_string(size) + " ranks");
  }
  if (options.ranks_per_host == 0) options.ranks_per_host = size;
  return options;
}

}  // namespace

SimState::SimState(int world_size, const SimOptions& sim_options)
    : size(world_size),
      options(complete(sim_options, world_size)),
      network(size, options.max_delay, options.seed),
      meetings(options.max_delay, options.seed, network),
      transfers(options.max_delay, options.seed, network) {}

SimWorld::SimWorld(int size, SimOptions options)
    : state_(std::make_shared<SimState>(size, options)) {
  for (Rank rank = 0; rank < size; ++rank) ranks_.push_back(std::make_shared<SimSet>(state_, rank));
}

int SimWorld::size() const noexcept {
  return state_->size;
}

std::unique_ptr<ControlPlane> SimWorld::control_plane(Rank rank) {
  return std::make_unique<SimControlPlane>(state_, rank);
}

std::unique_ptr<Collective> SimWorld::collective(Rank rank) {
  return std::make_unique<SimCollective>(ranks_[static_cast<std::size_t>(rank)]);
}

void SimWorld::kill(Rank rank) {
  ranks_[static_cast<std::size_t>(rank)]->abort();
  state_->network.cut(rank, "killed");
}

void SimWorld::silence(Rank rank) {
  state_->network.silence(rank, true);
}

void SimWorld::resume(Rank rank) {
  state_->network.silence(rank, false);
}

}  // namespace hvd::engine
