#pragma once

#include <string>

namespace hvd {

// What the system calls this machine or container; "unknown" if it does not say.
std::string host_name();

// Differs from machine to machine and from boot to boot; empty where /proc is not there.
std::string boot_id();

}  // namespace hvd
