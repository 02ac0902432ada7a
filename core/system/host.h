#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/topology.h"

namespace hvd::engine {

// What the system calls this machine or container; "unknown" if it does not say.
std::string host_name();

// Differs from machine to machine and from boot to boot; empty where /proc is not there.
std::string boot_id();

// Both draw from the system's generator: for keys, and for names that cannot be guessed and no
// other process has. They throw InternalError if the system has none. Any thread.
void draw_random(std::span<std::byte> bytes);
std::string random_hex(std::size_t digits);

// hvdrun sets it, to a make_job_name(), for all ranks of a job.
inline constexpr const char* kJobVariable = "HVD_JOB_ID";

// Of this moment, with random bits, such that no two jobs have one; positive.
std::int64_t draw_job_number();
// The date and time in it (UTC) and the random bits: "20261123-142217-1f2e3d4".
std::string make_job_name(std::int64_t number);
inline std::string make_job_name() {
  return make_job_name(draw_job_number());
}
// 1 to 64 letters, digits, '.', '-' and '_', the first a letter or digit: can name a folder.
bool is_job_name(std::string_view text);

// The folder that has a folder for each job that failed: `chosen` (HVD_FLIGHT_RECORDER_DIR) or, if
// that is empty, the user's own in the temporary folder.
std::string flight_recorder_base(const std::string& chosen);
// What a rank leaves in the folder of its job.
std::string flight_recorder_file(Rank rank);

}  // namespace hvd::engine
