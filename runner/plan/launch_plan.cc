#include "runner/plan/launch_plan.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/status.h"
#include "core/config/config.h"
#include "core/config/launch_info.h"
#include "core/config/setting_kinds.h"
#include "core/system/host.h"

namespace hvd::runner {
namespace {

// Besides HOROVOD_* and HVD_*, what a program needs on another host to start as it does here.
constexpr std::array kExported = {"PATH",         "LD_LIBRARY_PATH", "PYTHONPATH",  "VIRTUAL_ENV",
                                  "CONDA_PREFIX", "OMP_NUM_THREADS", kAgentVariable};

constexpr const char* kStartTimeout = "HOROVOD_START_TIMEOUT";
constexpr const char* kLinkTimeout = "HVD_LINK_TIMEOUT_SECONDS";
constexpr const char* kPortRange = "HVD_PORT_RANGE";
constexpr const char* kController = "HOROVOD_CONTROLLER";

// What an MPI that started hvdrun itself left behind: ranks would take it for their own, and mpirun
// refuses to start in its own job.
constexpr std::array<const char*, 4> kForeign = {"OMPI_", "PMIX_", "PMI_", "MPI_LOCAL"};
// By which one knows that it did.
constexpr std::array<const char*, 3> kForeignRanks = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                                      "PMI_RANK"};

// What an hvdrun or torchrun that started this one set, or a rank; HVD_WORLD=self was for this
// process. With torchrun's, no rank of torch.distributed would listen at MASTER_PORT.
constexpr std::array kOfOuterJob = {kSourcesVariable, kRankProcessVariable, "HVD_WORLD",
                                    "TORCHELASTIC_"};

// Removes the variables whose names begin so.
void forget(Environment& environment, std::span<const char* const> prefixes) {
  std::erase_if(environment, [&](const auto& variable) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](const char* prefix) { return variable.first.starts_with(prefix); });
  });
}

bool is_exported(const std::string& name) {
  if (name == "HOROVOD_HOSTNAME") return false;  // each host has its own
  if (name.starts_with("HOROVOD_") || name.starts_with("HVD_")) return true;
  return std::find(kExported.begin(), kExported.end(), std::string_view(name)) != kExported.end();
}

// Most ranks this machine may have to hold.
int ranks_here(const Options& options, const LaunchContext& context) {
  if (options.hosts.empty()) return options.np;
  int ranks = 0;
  for (const HostSlots& host : options.hosts) {
    if (is_local_host(host.host, context.hostname)) ranks += host.slots;
  }
  return std::min(ranks, options.np);
}

// All that hvdrun, or one on each machine, runs ranks on.
std::vector<HostSlots> hosts_of(const Options& options) {
  if (options.manual.nodes > 1) {
    const HostSlots node{"localhost", options.np / options.manual.nodes};
    return std::vector<HostSlots>(static_cast<std::size_t>(options.manual.nodes), node);
  }
  return options.hosts.empty() ? std::vector<HostSlots>{{"localhost", options.np}} : options.hosts;
}

void add(std::vector<std::string>& argv, std::initializer_list<std::string> words) {
  argv.insert(argv.end(), words);
}

Environment plan_environment(const Options& options, const LaunchContext& context,
                             const std::string& agent_address) {
  Environment environment = rank_environment(options, context);
  environment[kAgentVariable] = agent_address;
  environment[engine::kJobVariable] =
      engine::make_job_name();  // one that was there is another job's
  if (context.is_root) {        // mpirun refuses root otherwise; containers run as root
    environment.insert_or_assign("OMPI_ALLOW_RUN_AS_ROOT", "1");
    environment.insert_or_assign("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  return environment;
}

// ssh must never ask: no one would see the question.
void add_ssh(std::vector<std::string>& argv, const Options& options) {
  std::string arguments = "-o BatchMode=yes -o ConnectTimeout=10";
  if (options.ssh_port != 0) arguments += " -p " + std::to_string(options.ssh_port);
  if (options.ssh_identity.find_first_of(" \t") != std::string::npos) {
    throw InvalidArgumentError("-i '", options.ssh_identity,
                               "': mpirun cannot pass names with blanks on");
  }
  if (!options.ssh_identity.empty()) arguments += " -i " + options.ssh_identity;
  add(argv, {"--mca", "plm_rsh_args", arguments});
}

void add_interfaces(std::vector<std::string>& argv, const Options& options) {
  const auto names = options.settings.find(kInterfacesVariable);
  if (names == options.settings.end()) return;
  for (const char* user : {"btl_tcp_if_include", "oob_tcp_if_include"}) {
    add(argv, {"--mca", user, names->second.value});
  }
}

// A variable's value, which init() would accept; nothing if it is not set.
std::optional<std::string> checked(const Environment& environment, const char* name) {
  const auto value = value_of(environment, name);
  if (value) check_setting(name, *value, name);
  return value;
}

// "auto", "mpi" or "gloo".
std::string controller(const Options& options, const LaunchContext& context) {
  return checked(rank_environment(options, context), kController).value_or(Config{}.controller);
}

// Words for mpirun ask for it too, and so does a setting that only MPI can serve.
bool asks_for_mpirun(const Options& options, const LaunchContext& context) {
  const std::string wanted = controller(options, context);
  if (wanted != "auto") return wanted == "mpi";
  return !options.mpi_args.empty() || !options.binding_args.empty() ||
         checked(rank_environment(options, context), "HOROVOD_CPU_OPERATIONS") == "mpi";
}

std::vector<std::string> mpirun_command(const Options& options, const LaunchContext& context,
                                        const Environment& environment) {
  std::vector<std::string> argv;
  add(argv, {context.mpirun, "-np", std::to_string(options.np)});
  add(argv, {"-H", to_string(hosts_of(options))});
  // Open MPI ties each rank of a small job to one core by default. A rank has more threads than
  // one (coordinator, loader, OpenMP), and they would all share that core.
  if (options.binding_args.empty()) add(argv, {"--bind-to", "none"});
  argv.insert(argv.end(), options.binding_args.begin(), options.binding_args.end());
  if (may_be_remote(options, context)) add_ssh(argv, options);
  add_interfaces(argv, options);
  if (ranks_here(options, context) > context.cores) {
    // Ranks that wait inside MPI have to give their core to those that compute.
    add(argv, {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  }
  for (const auto& [name, value] : environment) {
    if (is_exported(name)) add(argv, {"-x", name});
  }
  argv.insert(argv.end(), options.mpi_args.begin(), options.mpi_args.end());
  add(argv, {context.hvdrun, "agent"});
  return argv;
}

// The argv that starts `agent` on another machine. What it needs before hvdrun talks to it goes
// along; all else comes later, and secrets never come this way: everybody can read command lines.
std::vector<std::string> start_on(const std::string& host, std::vector<std::string> agent,
                                  const Options& options, const Environment& environment) {
  std::vector<std::string> words = {"env"};
  for (const char* name : {kStartTimeout, kLinkTimeout, kPortRange, "LD_LIBRARY_PATH"}) {
    if (const auto value = value_of(environment, name)) words.push_back(str_cat(name, "=", *value));
  }
  if (words.size() > 1) agent.insert(agent.begin(), words.begin(), words.end());
  std::vector<std::string> argv;
  if (options.launcher.starts_with("exec:")) {
    argv = split_words(options.launcher.substr(5), "--launcher");
    argv.push_back(host);
  } else if (options.launcher == "slurm") {
    argv = {"srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=" + host};
  } else {
    argv = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"};
    if (options.ssh_port != 0) add(argv, {"-p", std::to_string(options.ssh_port)});
    if (!options.ssh_identity.empty()) add(argv, {"-i", options.ssh_identity});
    add(argv, {host, join_words(agent)});  // which a shell reads there
    return argv;
  }
  argv.insert(argv.end(), agent.begin(), agent.end());
  return argv;
}

// The ranks of --nnodes meet without an hvdrun that knows all hosts.
void add_nodes(LaunchPlan& plan, const Options& options, const std::string& key) {
  plan.placed = place_ranks(options.np, hosts_of(options));
  for (int node = 0; node < options.manual.nodes; ++node) {
    plan.nodes.push_back({std::to_string(node), options.manual.host, "",
                          static_cast<std::uint16_t>(options.manual.port + 1),
                          options.manual.port});
  }
  plan.meeting->key = options.manual.key_file.empty() ? "" : key;
}

}  // namespace

Environment settings_environment(const Options& options) {
  Environment environment;
  std::string sources;
  for (const auto& [name, chosen] : options.settings) {
    environment[name] = chosen.value;
    std::string source = chosen.source;
    std::replace(source.begin(), source.end(), ';', ',');  // what separates the entries
    sources += (sources.empty() ? "" : ";") + name + "=" + source;
  }
  if (!sources.empty()) environment[kSourcesVariable] = sources;
  return environment;
}

Environment rank_environment(const Options& options, const LaunchContext& context) {
  Environment environment = context.environment;
  const bool in_mpi =
      std::any_of(kForeignRanks.begin(), kForeignRanks.end(),
                  [&](const char* name) { return context.environment.contains(name); });
  if (in_mpi) forget(environment, kForeign);
  forget(environment, kOfOuterJob);
  for (const auto& [name, value] : settings_environment(options)) environment[name] = value;
  return environment;
}

Duration start_timeout(const Environment& environment) {
  const auto text = checked(environment, kStartTimeout);
  return text ? *kinds::kSecondsAboveZero.read(*text) : Config{}.start_timeout;
}

Duration link_timeout(const Environment& environment) {
  const auto text = checked(environment, kLinkTimeout);
  return text ? *kinds::kPositiveSeconds.read(*text) : Config{}.link_timeout;
}

PortRange port_range(const Environment& environment) {
  const auto text = checked(environment, kPortRange);
  return text ? *kinds::kPorts.read(*text) : PortRange{};
}

std::string chosen_interfaces(const Environment& environment) {
  return value_of(environment, kInterfacesVariable).value_or("");
}

bool may_be_remote(const Options& options, const LaunchContext& context) {
  return std::any_of(options.hosts.begin(), options.hosts.end(), [&](const HostSlots& host) {
    return !is_local_host(host.host, context.hostname);
  });
}

bool starts_by_mpirun(const Options& options, const LaunchContext& context) {
  if (!asks_for_mpirun(options, context)) return false;
  if (options.manual.nodes > 1) {
    throw UnsupportedError("--nnodes: ranks that use MPI (--mpi) are all started by one hvdrun -H");
  }
  if (!context.mpirun.empty()) return true;
  throw UnsupportedError(
      "there is no mpirun in PATH; hvdrun starts ranks that use MPI (--mpi) with Open MPI: apt-get "
      "install openmpi-bin");
}

std::vector<std::vector<int>> ranks_of_agents(const Options& options,
                                              const LaunchContext& context) {
  if (starts_by_mpirun(options, context)) {
    std::vector<std::vector<int>> agents;
    for (int rank = 0; rank < options.np; ++rank) agents.push_back({rank});
    return agents;
  }
  const auto placed = place_ranks(options.np, hosts_of(options));
  if (options.manual.nodes > 1) return {placed[static_cast<std::size_t>(options.manual.node_rank)]};
  return placed;
}

LaunchPlan make_launch_plan(const Options& options, const LaunchContext& context,
                            const std::string& agent_address, const std::string& rendezvous) {
  Environment environment = plan_environment(options, context, agent_address);
  LaunchPlan plan;
  plan.by_mpirun = starts_by_mpirun(options, context);
  plan.remote = may_be_remote(options, context);
  plan.agents = ranks_of_agents(options, context);
  plan.warnings = options.warnings;
  plan.start_timeout = start_timeout(environment);
  if (plan.by_mpirun) {
    plan.commands.push_back({"", mpirun_command(options, context, environment), environment});
    return plan;
  }
  if (!options.mpi_args.empty()) {
    plan.warnings.push_back("--mpi-args does nothing: hvdrun starts these ranks without mpirun");
  }
  plan.meeting = MeetingChoice{rendezvous, engine::random_hex(64)};
  if (options.manual.nodes > 1)
    add_nodes(plan, options, agent_address.substr(0, agent_address.find(' ')));
  plan.agent_address = agent_address;
  forget(environment, kForeign);
  environment.erase(kAgentVariable);
  if (plan.remote) {
    plan.folder = context.folder;
    for (const auto& variable : environment) {
      if (is_exported(variable.first)) plan.exported.insert(variable);
    }
  }
  for (std::size_t number = 0; number < plan.agents.size(); ++number) {
    std::vector<std::string> agent = {context.hvdrun, "agent", std::to_string(number)};
    const std::string host = options.hosts.empty() ? "" : options.hosts[number].host;
    if (options.launcher == "none") {
      const std::string endpoints = agent_address.substr(agent_address.find(' ') + 1);
      add(agent, {"--driver", endpoints, "--key-file", options.manual.key_file});
      plan.by_hand.push_back({host.empty() ? context.hostname : host, agent, {}});
    } else if (host.empty() || is_local_host(host, context.hostname)) {
      plan.commands.push_back({"", agent, environment});
    } else {
      plan.commands.push_back({host, start_on(host, agent, options, environment), environment});
    }
  }
  return plan;
}

}  // namespace hvd::runner
