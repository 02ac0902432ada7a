#include "test/support/sim/sim_world.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "test/support/sim/sim_collective.h"
#include "test/support/sim/sim_state.h"

namespace hvd {
namespace {

class SimControlPlane final : public ControlPlane {
 public:
  SimControlPlane(std::shared_ptr<SimState> world, Rank rank)
      : world_(std::move(world)), rank_(rank) {}

  Topology topology() const noexcept override;
  const std::vector<int>& host_of() const noexcept override { return world_->host_of; }
  std::string host_name(Rank rank) const override {
    return "sim-host-" + std::to_string(world_->host_of[static_cast<std::size_t>(rank)]);
  }
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

Topology SimControlPlane::topology() const noexcept {
  const int per_host = std::min(world_->size, world_->options.ranks_per_host);
  const int local_rank = rank_ % per_host;
  const int first = rank_ - local_rank;
  // Hosts fill up in order, so that only the last one may have fewer ranks.
  const int local_size = std::min(per_host, world_->size - first);
  const int cross_size = (world_->size - local_rank + per_host - 1) / per_host;
  return {rank_, world_->size, local_rank, local_size, rank_ / per_host, cross_size};
}

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
      meetings(size, options.max_delay, options.seed, network),
      transfers(options.max_delay, options.seed, network) {
  for (Rank rank = 0; rank < size; ++rank) host_of.push_back(rank / options.ranks_per_host);
}

SimWorld::SimWorld(int size, SimOptions options)
    : state_(std::make_shared<SimState>(size, options)) {}

int SimWorld::size() const noexcept {
  return state_->size;
}

std::unique_ptr<ControlPlane> SimWorld::control_plane(Rank rank) {
  return std::make_unique<SimControlPlane>(state_, rank);
}

std::unique_ptr<Collective> SimWorld::collective(Rank rank) {
  return std::make_unique<SimCollective>(state_, state_->meetings.member(rank));
}

void SimWorld::kill(Rank rank) {
  state_->meetings.abort(*state_->meetings.member(rank));
  state_->network.cut(rank, "killed");
}

void SimWorld::silence(Rank rank) {
  state_->network.silence(rank, true);
}

void SimWorld::resume(Rank rank) {
  state_->network.silence(rank, false);
}

}  // namespace hvd
