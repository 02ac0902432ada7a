#pragma once

#include <string>

#include "runner/options.h"

namespace hvd::runner {

// What --check-build prints: the version, what the build has and why not, the backends that can be
// used here, and what hvdrun starts ranks with.
std::string describe_build();

// What --help-settings prints: every setting as a rank that is started from here would have it.
// Throws InvalidArgumentError on a malformed variable.
std::string describe_settings_here(const Options& options);

}  // namespace hvd::runner
