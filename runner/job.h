#pragma once

#include <span>
#include <string>

#include "runner/plan/launch_plan.h"

namespace hvd::runner {

// Runs `options.command` on options.np ranks until all have ended; prints their output, passes
// signals on, stops everything when one rank fails and reports it. Returns hvdrun's exit code.
// Throws Error when the job cannot be started at all.
int run_job(const Options& options, const LaunchContext& context);

// `hvdrun --relay OPTIONS... PROGRAM`, which hvd.run and hvd.Cluster start: runs the programs of
// ranks that it is told to start on standard input, a stream socket, in the messages of wire.h.
// Takes Start (with the variables that the rank has besides those of its place) and Signal of a
// rank; says Output, ProgramEnd and Done of a rank, and Output of none for what it says itself. A
// rank that has ended may be started again, and its end does not end the others. Ends with
// everything it started when the socket closes. Returns the exit code: what could not be started is
// on standard error.
int run_relay(const Options& options, const LaunchContext& context);

// An agent: `hvdrun agent NUMBER` on a host, or `hvdrun agent` for one rank, started by mpirun.
// It runs the programs that hvdrun tells it to, sends their output and their ends to hvdrun, and
// stops them when hvdrun or mpirun says so or one of them is gone. Returns the process's exit code:
// 0 once the programs' ends were delivered, whatever they were, because hvdrun reports them.
int run_agent(std::span<const std::string> arguments);

}  // namespace hvd::runner
