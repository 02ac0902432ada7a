#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/config/port_range.h"
#include "runner/plan/options.h"
#include "runner/plan/placement.h"

namespace hvd::runner {

// What the machine is like: everything a plan depends on besides the options.
struct LaunchContext {
  std::string mpirun;  // absolute path; empty = there is none
  std::string hvdrun;  // absolute path; the same on every host
  std::string hostname;
  std::string folder;  // the current one
  int cores = 1;       // that this process may use
  bool is_root = false;
  Environment environment;
};

// Name of the variable through which agents find hvdrun.
inline constexpr const char* kAgentVariable = "HVDRUN_AGENT";

// A process that hvdrun starts.
struct LaunchCommand {
  std::string host;  // of an agent; empty = this machine, or those that mpirun has
  std::vector<std::string> argv;
  Environment environment;  // all of it
};

struct LaunchPlan {
  bool by_mpirun = true;
  bool remote = false;                   // ranks may run on other machines
  std::vector<std::vector<int>> agents;  // the ranks of each
  // With --nnodes: the ranks of all machines' agents, and what is known of these.
  std::vector<std::vector<int>> placed;
  std::vector<HostFacts> nodes;
  std::vector<LaunchCommand> commands;  // mpirun, which starts the agents; else what starts each
  std::vector<LaunchCommand> by_hand;   // what the user starts, by --launcher none
  std::string agent_address;  // on the standard input of each of `commands`; "" = in a variable
  // What ranks on other machines have besides their agents' environment, and where they run.
  Environment exported;
  std::string folder;
  std::optional<MeetingChoice> meeting;  // where ranks meet without MPI
  std::vector<std::string> warnings;     // for the user to read
  Duration start_timeout{};              // HOROVOD_START_TIMEOUT: all agents must have come by then
};

// The variables that options set for the ranks, and kSourcesVariable with where they came from.
Environment settings_environment(const Options& options);

// What a rank on this machine will find: the environment without what belongs to a rank that
// started hvdrun, and what options set.
Environment rank_environment(const Options& options, const LaunchContext& context);

// HOROVOD_START_TIMEOUT and HVD_LINK_TIMEOUT_SECONDS of such an environment, or their defaults.
// Throw InvalidArgumentError on what is malformed.
Duration start_timeout(const Environment& environment);
Duration link_timeout(const Environment& environment);
// HVD_PORT_RANGE.
PortRange port_range(const Environment& environment);
// HOROVOD_GLOO_IFACE; empty = all.
std::string chosen_interfaces(const Environment& environment);

// Whether ranks may run on other machines, so that hvdrun has to listen beyond loopback.
bool may_be_remote(const Options& options, const LaunchContext& context);

// Whether mpirun starts the ranks: if it is asked for by HOROVOD_CONTROLLER (--mpi), words for it
// or a setting that needs MPI. Otherwise hvdrun does, and MPI is not needed.
// Throws UnsupportedError when it has to and cannot.
bool starts_by_mpirun(const Options& options, const LaunchContext& context);

// Of each agent: one per rank if mpirun starts them, else one per host. Throws as
// starts_by_mpirun().
std::vector<std::vector<int>> ranks_of_agents(const Options& options, const LaunchContext& context);

// `agent_address` is the value of kAgentVariable, `rendezvous` that of HVD_RENDEZVOUS where mpirun
// does not start the ranks. Pure. Throws as starts_by_mpirun(), and InvalidArgumentError on a
// malformed HOROVOD_START_TIMEOUT or HOROVOD_CONTROLLER.
LaunchPlan make_launch_plan(const Options& options, const LaunchContext& context,
                            const std::string& agent_address, const std::string& rendezvous);

}  // namespace hvd::runner
