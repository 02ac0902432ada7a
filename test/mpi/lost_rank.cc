// Rank 2 of 4 kills itself in the middle; the others say whom they lost.
#include <csignal>
#include <cstdio>
#include <thread>

#include "ops/connect/backends.h"

int main() {
  using namespace hvd;
  const Ports ports = connect(read_config());
  ControlPlane& plane = *ports.control;
  const TimePoint start = Clock::now();
  if (plane.topology().rank == 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    raise(SIGKILL);
  }
  while (Clock::now() - start < std::chrono::seconds(30)) {
    const auto seen = plane.doorbell().rings();
    try {
      plane.poll();
    } catch (const LostRankError& error) {
      std::printf("lost rank %d: %s\n", error.rank(), error.what());
      std::fflush(stdout);
      ports.collectives.front()->abort();
      plane.abort(error.status());
      ports.ended(true);
      return 0;
    }
    plane.doorbell().wait_until(seen, Clock::now() + std::chrono::seconds(1));
  }
  return 1;
}
