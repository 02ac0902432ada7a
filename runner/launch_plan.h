#pragma once

#include <string>
#include <vector>

#include "core/base/clock.h"
#include "runner/options.h"

namespace hvd::runner {

// What the machine is like: everything a plan depends on besides the options.
struct LaunchContext {
  std::string mpirun;  // absolute path
  std::string hvdrun;  // absolute path; the same on every host
  std::string hostname;
  int cores = 1;  // that this process may use
  bool is_root = false;
  Environment environment;
};

// Name of the variable through which agents find hvdrun.
inline constexpr const char* kAgentVariable = "HVDRUN_AGENT";

// mpirun's command line and its whole environment.
struct LaunchPlan {
  std::vector<std::string> argv;
  Environment environment;
  Duration start_timeout{};  // HOROVOD_START_TIMEOUT: all agents must have come by then
};

// The variables that options set for the ranks, and kSourcesVariable with where they came from.
Environment settings_environment(const Options& options);

// Whether ranks may run on other machines, so that hvdrun has to listen beyond loopback.
bool may_be_remote(const Options& options, const LaunchContext& context);

// `agent_address` is the value of kAgentVariable. Pure. Throws InvalidArgumentError on a malformed
// HOROVOD_START_TIMEOUT.
LaunchPlan make_launch_plan(const Options& options, const LaunchContext& context,
                            const std::string& agent_address);

}  // namespace hvd::runner
