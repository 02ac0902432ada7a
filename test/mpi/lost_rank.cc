// Rank 2 of 4 kills itself when all are connected; the others say whom they lost.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "ops/connect/backends.h"

namespace hvd {
namespace {

// A file that `rank` makes in the folder of recovery.sh once it is connected: one that was still
// connecting when rank 2 dies would fail in another way.
std::string connected(Rank rank) {
  return std::getenv("HVD_TEST_FOLDER") + std::string("/connected.") + std::to_string(rank);
}

bool all_come_by(TimePoint limit, int size) {
  for (Rank rank = 0; rank < size; ++rank) {
    while (!std::filesystem::exists(connected(rank))) {
      if (Clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  return true;
}

}  // namespace
}  // namespace hvd

int main() {
  using namespace hvd;
  const Ports ports = connect(read_config());
  ControlPlane& plane = *ports.control;
  const TimePoint start = Clock::now();
  const Rank rank = plane.topology().rank;
  std::ofstream{connected(rank)};
  if (rank == 2) {
    if (!all_come_by(start + std::chrono::seconds(20), plane.topology().size)) {
      std::puts("rank 2 does not die: the others did not connect");
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
