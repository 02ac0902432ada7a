#include "core/system/thread_affinity.h"

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/status.h"

namespace hvd {

void pin_this_thread(std::span<const int> cores, int local_rank) {
  if (cores.empty()) return;
  if (static_cast<std::size_t>(local_rank) >= cores.size()) {
    throw InvalidArgumentError("HOROVOD_THREAD_AFFINITY has " + std::to_string(cores.size()) +
                               " cores, but none for local rank " + std::to_string(local_rank));
  }
  const int core = cores[static_cast<std::size_t>(local_rank)];
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(core), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return;
  throw InvalidArgumentError("HOROVOD_THREAD_AFFINITY: core " + std::to_string(core) +
                             " for local rank " + std::to_string(local_rank) + ": " +
                             std::strerror(errno));
}

}  // namespace hvd
