#pragma once

#include <span>
#include <string>

namespace hvd::runner {

// One rank's agent: `hvdrun --agent -- program args`, started by mpirun on the rank's host. It
// runs the program in a session of its own, sends its output and its end to hvdrun, and stops it
// when hvdrun or mpirun says so or one of them is gone. Returns the process's exit code: 0 once the
// program's end was delivered, whatever it was, because hvdrun reports it.
int run_agent(std::span<const std::string> command);

}  // namespace hvd::runner
