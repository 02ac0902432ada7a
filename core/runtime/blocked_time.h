#pragma once

#include "core/base/clock.h"

namespace hvd {

// Time that threads of this process spent blocked in Handle::wait() and wait_for(): what
// communication cost the program beyond what it could hide. Summed over threads. Thread-safe.
void add_blocked_time(Duration blocked) noexcept;
Duration blocked_time() noexcept;

}  // namespace hvd
