#include "runner/launch_plan.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/config.h"
#include "core/base/setting_kinds.h"

namespace hvd::runner {
namespace {

// Open MPI takes hosts from these schedulers by itself.
constexpr std::array<const char*, 4> kSchedulerVariables = {"SLURM_JOB_ID", "PBS_NODEFILE",
                                                            "LSB_HOSTS", "PE_HOSTFILE"};

// Besides HOROVOD_* and HVD_*, what a program needs on another host to start as it does here.
constexpr std::array<const char*, 7> kExported = {
    "PATH",         "LD_LIBRARY_PATH", "PYTHONPATH",  "VIRTUAL_ENV",
    "CONDA_PREFIX", "OMP_NUM_THREADS", kAgentVariable};

constexpr const char* kStartTimeout = "HOROVOD_START_TIMEOUT";
constexpr const char* kInterfaces = "HOROVOD_GLOO_IFACE";

bool scheduled(const Environment& environment) {
  return std::any_of(kSchedulerVariables.begin(), kSchedulerVariables.end(),
                     [&](const char* name) { return environment.contains(name); });
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

void add(std::vector<std::string>& argv, std::initializer_list<std::string> words) {
  argv.insert(argv.end(), words);
}

Environment plan_environment(const Options& options, const LaunchContext& context,
                             const std::string& agent_address) {
  Environment environment = context.environment;
  environment[kAgentVariable] = agent_address;
  if (context.is_root) {  // mpirun refuses root otherwise; containers run as root
    environment.insert_or_assign("OMPI_ALLOW_RUN_AS_ROOT", "1");
    environment.insert_or_assign("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  environment.erase(kSourcesVariable);  // of an hvdrun that started this one
  for (const auto& [name, value] : settings_environment(options)) environment[name] = value;
  return environment;
}

// ssh must never ask: nobody would see the question.
void add_ssh(std::vector<std::string>& argv, const Options& options) {
  std::string arguments = "-o BatchMode=yes -o ConnectTimeout=10";
  if (options.ssh_port != 0) arguments += " -p " + std::to_string(options.ssh_port);
  if (!options.ssh_identity.empty()) arguments += " -i " + options.ssh_identity;
  add(argv, {"--mca", "plm_rsh_args", arguments});
}

std::string joined_interfaces(const Options& options) {
  std::string names;
  for (const std::string& name : options.interfaces) names += (names.empty() ? "" : ",") + name;
  return names;
}

void add_interfaces(std::vector<std::string>& argv, const Options& options) {
  const std::string names = joined_interfaces(options);
  if (names.empty()) return;
  add(argv, {"--mca", "btl_tcp_if_include", names, "--mca", "oob_tcp_if_include", names});
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
  if (!options.interfaces.empty()) {
    environment[kInterfaces] = joined_interfaces(options);
    sources +=
        (sources.empty() ? "" : ";") + std::string(kInterfaces) + "=hvdrun --network-interfaces";
  }
  if (!sources.empty()) environment[kSourcesVariable] = sources;
  return environment;
}

bool may_be_remote(const Options& options, const LaunchContext& context) {
  if (options.hosts.empty()) return scheduled(context.environment);
  return std::any_of(options.hosts.begin(), options.hosts.end(), [&](const HostSlots& host) {
    return !is_local_host(host.host, context.hostname);
  });
}

LaunchPlan make_launch_plan(const Options& options, const LaunchContext& context,
                            const std::string& agent_address) {
  LaunchPlan plan{{}, plan_environment(options, context, agent_address), Config{}.start_timeout};
  if (const auto it = plan.environment.find(kStartTimeout); it != plan.environment.end()) {
    check_setting(kStartTimeout, it->second, kStartTimeout);
    plan.start_timeout = *Seconds::read(it->second);
  }
  std::vector<std::string>& argv = plan.argv;
  add(argv, {context.mpirun, "-np", std::to_string(options.np)});
  if (!options.hosts.empty()) {
    add(argv, {"-H", to_string(options.hosts)});
  } else if (!scheduled(context.environment)) {
    add(argv, {"-H", to_string(std::vector<HostSlots>{{"localhost", options.np}})});
  }
  // Open MPI ties each rank of a small job to one core by default. A rank has more threads than
  // one (coordinator, loader, OpenMP), and they would all share that core.
  argv.insert(argv.end(), options.binding_args.begin(), options.binding_args.end());
  if (may_be_remote(options, context)) add_ssh(argv, options);
  add_interfaces(argv, options);
  if (ranks_here(options, context) > context.cores) {
    // Ranks that wait inside MPI have to give their core to those that compute.
    add(argv, {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  }
  for (const auto& [name, value] : plan.environment) {
    if (is_exported(name)) add(argv, {"-x", name});
  }
  argv.insert(argv.end(), options.mpi_args.begin(), options.mpi_args.end());
  add(argv, {context.hvdrun, "--agent", "--"});
  argv.insert(argv.end(), options.command.begin(), options.command.end());
  return plan;
}

}  // namespace hvd::runner
