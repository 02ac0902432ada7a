#pragma once

#include <span>

namespace hvd {

// Ties the calling thread to cores[local_rank]; an empty list means any core. Throws
// InvalidArgumentError naming HOROVOD_THREAD_AFFINITY when the list is too short or this process
// may not use that core.
void pin_this_thread(std::span<const int> cores, int local_rank);

}  // namespace hvd
