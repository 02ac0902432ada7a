#pragma once

#include <cstddef>

#include "core/base/clock.h"

namespace hvd {

// What is decided by. Rank 0's are the first entry of the log, so they are equal everywhere.
struct NegotiationSettings {
  std::size_t fusion_threshold = 1 << 20;  // bytes; 0 = no fusion
  std::size_t cache_capacity = 4096;       // slots
  int batches_in_flight = 4;
  Duration batching_gap = Duration::zero();
  Duration stall_warning = std::chrono::seconds(60);  // zero = never
  Duration stall_limit = std::chrono::seconds(600);   // zero = never
  // Fuse only what was submitted as a group.
  bool deterministic = false;
  bool observed = false;  // every rank sends what its observers saw to rank 0
};

}  // namespace hvd
