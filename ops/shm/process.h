#pragma once

#include <sys/types.h>

#include <cstdint>

namespace hvd {

// A process of this host. The start time tells it from a later one that got the same number.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot; 0 where /proc is not there

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

ProcessId this_process();

// False once the process ended, even while nobody has reaped it.
bool is_alive(const ProcessId& process);

}  // namespace hvd
