#pragma once

#include <map>
#include <string>
#include <vector>

#include "runner/options.h"

namespace hvd::runner {

using Environment = std::map<std::string, std::string>;

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
};

// Whether ranks may run on other machines, so that hvdrun has to listen beyond loopback.
bool may_be_remote(const Options& options, const LaunchContext& context);

// `agent_address` is the value of kAgentVariable. Pure.
LaunchPlan make_launch_plan(const Options& options, const LaunchContext& context,
                            const std::string& agent_address);

}  // namespace hvd::runner
