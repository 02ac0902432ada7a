#pragma once

#include <cstdint>
#include <string>

namespace hvd::runner {

// Nanoseconds since the epoch: what agents of several hosts can compare.
std::int64_t system_time();

// Now, for people: "2026-11-21 14:03:22.123".
std::string wall_clock();

}  // namespace hvd::runner
