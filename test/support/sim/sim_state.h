#pragma once

#include <vector>

#include "test/support/sim/sim_meetings.h"
#include "test/support/sim/sim_network.h"
#include "test/support/sim/sim_transfers.h"
#include "test/support/sim/sim_world.h"

namespace hvd {

// What the ports of one SimWorld share.
struct SimState {
  SimState(int world_size, const SimOptions& sim_options);

  const int size;
  const SimOptions options;
  std::vector<int> host_of;
  SimNetwork network;
  SimMeetings meetings;
  SimTransfers transfers;
};

}  // namespace hvd
