#pragma once

#include <string>

#include "runner/plan/options.h"

namespace hvd::runner {

// What the user asked hvdrun to tell instead of starting a job: --help, --version, --check-build,
// --help-settings. "" = nothing. Throws InvalidArgumentError on a malformed variable.
std::string requested_text(const Options& options);

}  // namespace hvd::runner
