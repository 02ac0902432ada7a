#pragma once

#include <string>

namespace hvd {

// What the system calls this machine or container; "unknown" if it does not say.
std::string host_name();

// Differs from machine to machine and from boot to boot; empty where /proc is not there.
std::string boot_id();

// What process numbers count in: differs between containers that do not share it; empty where /proc
// is not there.
std::string pid_namespace();

}  // namespace hvd
