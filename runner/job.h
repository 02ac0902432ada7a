#pragma once

#include "runner/plan/launch_plan.h"

namespace hvd::runner {

// Runs `options.command` on options.np ranks until all have ended; prints their output, passes
// signals on, stops everything when one rank fails and reports it. Returns hvdrun's exit code.
// Throws Error when the job cannot be started at all.
int run_job(const Options& options, const LaunchContext& context);

}  // namespace hvd::runner
