#pragma once

#include <span>
#include <string>

#include "runner/plan/launch_plan.h"

namespace hvd::runner {

// Runs `options.command` on options.np ranks until all have ended; prints their output, passes
// signals on, stops everything when one rank fails and reports it. Returns hvdrun's exit code.
// Throws Error when the job cannot be started at all.
int run_job(const Options& options, const LaunchContext& context);

// One rank's agent: `hvdrun --agent -- program args`, started by mpirun on the rank's host. It
// runs the program in a session of its own, sends its output and its end to hvdrun, and stops it
// when hvdrun or mpirun says so or one of them is gone. Returns the process's exit code: 0 once the
// program's end was delivered, whatever it was, because hvdrun reports it.
int run_agent(std::span<const std::string> command);

}  // namespace hvd::runner
