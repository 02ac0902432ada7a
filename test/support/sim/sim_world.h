#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/clock.h"
#include "core/base/tensor_view.h"
#include "core/base/topology.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"

namespace hvd::engine {

struct SimOptions {
  // Every message and every result is held back for a random time up to this.
  Duration max_delay = Duration::zero();
  std::uint64_t seed = 1;
  // Operations are enqueued and run later, on a device thread a rank; so are fences.
  bool asynchronous = false;
  // What the collectives serve; their memory is the host's in any case.
  DeviceKind device = DeviceKind::kCpu;
  int ranks_per_host = 0;  // 0 = all on one host
};

struct SimState;
class SimSet;

// N ranks that meet in the memory of one process: the ports behind the tests of everything above
// them, with the faults of a real network on request. Thread-safe; its ports may outlive it.
class SimWorld {
 public:
  // Throws InvalidArgumentError unless size > 0.
  explicit SimWorld(int size, SimOptions options = {});

  int size() const noexcept;
  // Once a rank.
  std::unique_ptr<ControlPlane> control_plane(Rank rank);
  std::unique_ptr<Collective> collective(Rank rank);

  // The rank is gone as after a SIGKILL: its links are cut, every peer's poll() says so once.
  void kill(Rank rank);
  // The rank lives but nothing is heard from it, as after a SIGSTOP, until resume().
  void silence(Rank rank);
  void resume(Rank rank);

 private:
  std::shared_ptr<SimState> state_;
  std::vector<std::shared_ptr<SimSet>> ranks_;  // each rank's end of the world
};

}  // namespace hvd::engine
