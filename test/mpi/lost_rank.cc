// Rank 2 of 4 kills itself once all are connected; the others say whom they lost.
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "ops/connect/backends.h"
#include "test/mpi/shared_folder.h"

int main() {
  using namespace hvd;
  using namespace hvd::engine;
  const Ports ports = connect(read_config());
  ControlPlane& plane = *ports.control;
  const TimePoint start = Clock::now();
  const Rank rank = plane.topology().rank;
  test::announce("connected." + std::to_string(rank));
  if (rank == 2) {
    // A rank that is still connecting when another dies fails in another way.
    for (Rank other = 0; other < plane.topology().size; ++other) {
      if (test::wait_for("connected." + std::to_string(other))) continue;
      std::printf("rank 2 does not die: rank %d did not connect\n", other);
      return 1;
    }
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
