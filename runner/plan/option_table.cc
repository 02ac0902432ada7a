#include "runner/plan/option_table.h"

#include <cstring>
#include <optional>
#include <type_traits>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/config/config.h"

namespace hvd::runner {
namespace {

// What values are, where it says how they are read.
constexpr const char* kMib = "MIB";
constexpr const char* kFile = "FILE";
constexpr const char* kShellWords = "\"ARGS\"";
constexpr const char* kElastic = "there is no elastic training yet";

constexpr OptionGroup kJob = {"Job", true};
constexpr OptionGroup kPerformance = {"Performance", true};
constexpr OptionGroup kDiagnosis = {"Output and diagnosis", true};
constexpr OptionGroup kInformation = {"Information", true};
constexpr OptionGroup kMpi = {"MPI and other machines", false};
constexpr OptionGroup kNodes = {"As torchrun: an hvdrun on each machine", false};
constexpr OptionGroup kTuning = {"More on performance", false};
constexpr OptionGroup kReports = {"More on diagnosis", false};
constexpr OptionGroup kIgnored = {"Accepted without effect", false};
constexpr OptionGroup kRefused = {"Refused", false};

// `expected` is what the error says: "expected a port, 1 to 65535".
template <typename Number>
Number number(const Given& given, Number least, Number most, const char* expected) {
  const auto value = parse_number<Number>(given.value);
  if (value && *value >= least && *value <= most) return *value;
  throw InvalidArgumentError(given.written, ": '", given.value, "': expected ", expected);
}

void take_np(Options& options, const Given& given) {
  options.np = number(given, 1, 1'000'000, "a whole number of ranks, 1 to 1000000");
}

void take_port(Options& options, const Given& given) {
  options.ssh_port = number(given, 1, 65535, "a port, 1 to 65535");
}

void take_hosts(Options& options, const Given& given) {
  if (!options.hosts.empty()) {
    throw InvalidArgumentError("-H and --hostfile: both say which machines to use; give one");
  }
  options.hosts = given.row->value == kFile ? read_hostfile(given.value) : parse_hosts(given.value);
}

void take_launcher(Options& options, const Given& given) {
  const bool known = given.value == "ssh" || given.value == "slurm" || given.value == "none";
  if (!known && !(given.value.starts_with("exec:") && given.value.size() > 5)) {
    throw InvalidArgumentError(given.written, ": '", given.value,
                               "': expected ssh, slurm, none or exec:CMD");
  }
  options.launcher = given.value;
}

template <int ManualStart::*kMember, int kLeast>
void take_count(Options& options, const Given& given) {
  options.manual.*kMember = number(given, kLeast, 1'000'000, "a whole number of machines or ranks");
}

void take_key_file(Options& options, const Given& given) {
  options.manual.key_file = given.value;
}

void take_standalone(Options& options, const Given&) {
  options.manual.standalone = true;
}

void take_endpoint(Options& options, const Given& given) {
  const std::size_t colon = given.value.rfind(':');
  const auto port = colon == std::string::npos
                        ? std::optional<std::uint16_t>(29400)
                        : parse_number<std::uint16_t>(given.value.substr(colon + 1));
  options.manual.host = given.value.substr(0, colon);
  if (options.manual.host.starts_with('[') && options.manual.host.ends_with(']')) {
    options.manual.host = options.manual.host.substr(1, options.manual.host.size() - 2);
  }
  options.manual.port = port.value_or(0);
  // The next one is MASTER_PORT.
  if (options.manual.host.empty() || options.manual.port == 0 || options.manual.port == 65535) {
    throw InvalidArgumentError(given.written, ": '", given.value, "': expected HOST:PORT");
  }
}

// A flag, a text, or a shell's words.
template <auto kMember>
void store(Options& options, const Given& given) {
  auto& member = options.*kMember;
  if constexpr (std::is_same_v<decltype(member), bool&>) {
    member = true;
  } else if constexpr (std::is_same_v<decltype(member), std::string&>) {
    member = given.value;
  } else {
    member = split_words(given.value, given.written);
  }
}

// May be given several times.
void take_interfaces(Options& options, const Given& given) {
  for (const std::string_view name : split(given.value, ',')) {
    if (name.empty()) continue;
    ChosenSetting& all = options.settings[kInterfacesVariable];
    all.value += all.value.empty() ? "" : ",";
    all.value += name;
    all.source = "hvdrun --network-interfaces";
  }
}

void warn(Options& options, const Given& given) {
  if (given.on) options.warnings.push_back(given.written + " does nothing: " + given.row->text);
}

void refuse(Options&, const Given& given) {
  throw InvalidArgumentError(given.written + ": " + given.row->text);
}

const std::vector<OptionRow> kOptions = {
    {kJob, "np,num-proc,n", "N", take_np, "ranks (processes) to start; in a batch job: its tasks"},
    {kJob, "hosts,H", "HOST:SLOTS,...", take_hosts, "machines, and how many ranks each may hold"},
    {kJob, "hostfile", kFile, take_hosts,
     "the same from a file: lines 'node1 slots=4' or 'node1:4'"},
    {kJob, "network-interfaces,network-interface", "A,B", take_interfaces,
     "what MPI and the engine use; default: all"},
    {kJob, "start-timeout", "SECONDS", "HOROVOD_START_TIMEOUT",
     "give up when a rank has not started by then"},
    {kJob, "config-file", "YAML", store<&Options::config_file>,
     "options from a file; the command line overrides it"},
    {kPerformance, "fusion-threshold-mb", kMib, "HOROVOD_FUSION_THRESHOLD",
     "fuse up to this many MiB of tensors; 0 turns it off", "params.fusion_threshold_mb"},
    {kPerformance, "cycle-time-ms", "MS", "HOROVOD_CYCLE_TIME", "least time between two transfers",
     "params.cycle_time_ms"},
    {kPerformance, "[no-]autotune", "", "HOROVOD_AUTOTUNE=1",
     "search for the best values of these two while training", "autotune.enabled"},
    {kPerformance, "deterministic", "", "HOROVOD_DETERMINISTIC=1", "bitwise equal runs",
     "params.deterministic"},
    {kDiagnosis, "output-filename", "DIR", store<&Options::output_folder>,
     "also write to DIR/rank.N/stdout and stderr"},
    {kDiagnosis, "prefix-output-with-timestamp,prefix-timestamp", "", store<&Options::timestamps>,
     "the time before each line"},
    {kDiagnosis, "verbose", "", store<&Options::verbose>,
     "print the command that starts the ranks and its own messages"},
    {kDiagnosis, "timeline-filename", "FILE", "HOROVOD_TIMELINE",
     "write a trace of the collectives that Perfetto opens", "timeline.filename"},
    {kDiagnosis, "stats", "", "HVD_STATS=1", "one line of statistics at exit"},
    {kDiagnosis, "check-nan", "", "HVD_CHECK_NAN=1",
     "fail on a NaN or infinity, naming its rank and tensor"},
    {kDiagnosis, "log-level", "LEVEL", "HOROVOD_LOG_LEVEL",
     "trace, debug, info, warning, error, fatal or off", "logging.level"},
    {kInformation, "help,h", "", store<&Options::help>, "print the options that most jobs need"},
    {kInformation, "help-all", "", store<&Options::help_all>, "print all options, and examples"},
    {kInformation, "help-settings", "", store<&Options::help_settings>,
     "print every setting, its value here and its source"},
    {kInformation, "check-build,cb", "", store<&Options::check_build>,
     "print what this build has and can use here"},
    {kInformation, "version,v", "", store<&Options::version>, "print the version"},
    {kMpi, "ssh-port,p", "PORT", take_port, "port of the other machines' ssh servers"},
    {kMpi, "ssh-identity-file,i", "FILE", store<&Options::ssh_identity>, "private key for ssh"},
    {kMpi, "launcher", "HOW", take_launcher,
     "what starts the agents of other machines: ssh, slurm (srun), exec:CMD, which is run as CMD "
     "HOST PROGRAM..., or none: start the lines that are printed; default: ssh, or what belongs to "
     "the scheduler that chose the machines"},
    {kMpi, "key-file", "FILE", take_key_file,
     "the job's key, made there if there is none; for --launcher none and --nnodes"},
    {kNodes, "nnodes", "N", take_count<&ManualStart::nodes, 1>, "machines; default: 1"},
    {kNodes, "node-rank,node_rank", "K", take_count<&ManualStart::node_rank, 0>,
     "number of this machine, from 0"},
    {kNodes, "nproc-per-node,nproc_per_node", "M", take_count<&ManualStart::ranks_per_node, 1>,
     "ranks of each; default: 1"},
    {kNodes, "rdzv-endpoint,rdzv_endpoint", "HOST[:PORT]", take_endpoint,
     "machine 0, where the ranks meet (port 29400); the port after it is MASTER_PORT"},
    {kNodes, "standalone", "", take_standalone, "this machine only"},
    {kMpi, "controller", "NAME", "HOROVOD_CONTROLLER",
     "auto, mpi: started by mpirun, or gloo: without MPI", "controller"},
    {kMpi, "mpi", "", "HOROVOD_CONTROLLER=mpi", "the same as --controller mpi"},
    {kMpi, "gloo", "", "HOROVOD_CONTROLLER=gloo", "the same as --controller gloo"},
    {kMpi, "mpi-args", kShellWords, store<&Options::mpi_args>, "further arguments for mpirun",
     "library_options.mpi_args"},
    {kMpi, "binding-args", kShellWords, store<&Options::binding_args>,
     "for mpirun in place of --bind-to none", "library_options.binding_args"},
    {kMpi, "[no-]mpi-threads-disable", "", "HOROVOD_MPI_THREADS_DISABLE=1",
     "call MPI from one thread at a time", "library_options.mpi_threads_disable"},
    {kMpi, "[no-]hierarchical-allreduce", "", "HOROVOD_HIERARCHICAL_ALLREDUCE=1",
     "on several machines, reduce inside each before between them (the default)",
     "params.hierarchical_allreduce"},
    {kMpi, "[no-]hierarchical-allgather", "", "HOROVOD_HIERARCHICAL_ALLGATHER=1",
     "on several machines, send to each once and share it there (the default)",
     "params.hierarchical_allgather"},
    {kTuning, "cache-capacity", "N", "HOROVOD_CACHE_CAPACITY",
     "tensors whose negotiation is remembered", "params.cache_capacity"},
    {kTuning, "thread-affinity", "CORE,...", "HOROVOD_THREAD_AFFINITY",
     "cores for the engine's threads, one per rank of a machine",
     "library_options.thread_affinity"},
    {kTuning, "autotune-log-file", "FILE", "HOROVOD_AUTOTUNE_LOG", "what autotune tried, as CSV",
     "autotune.log_file"},
    {kTuning, "autotune-warmup-samples", "N", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
     "samples to discard at the start", "autotune.warmup_samples"},
    {kTuning, "autotune-steps-per-sample", "N", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
     "repetitions of a tensor that make a sample", "autotune.steps_per_sample"},
    {kTuning, "autotune-bayes-opt-max-samples", "N", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
     "most settings to try", "autotune.bayes_opt_max_samples"},
    {kTuning, "autotune-gaussian-process-noise", "0..1", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
     "accepted without effect", "autotune.gaussian_process_noise"},
    {kReports, "[no-]timeline-mark-cycles", "", "HOROVOD_TIMELINE_MARK_CYCLES=1",
     "mark each decision of rank 0 in the trace", "timeline.mark_cycles"},
    {kReports, "[no-]stall-check", "", "HOROVOD_STALL_CHECK_DISABLE=0",
     "report tensors that some ranks do not submit", "stall_check.enabled"},
    {kReports, "stall-check-warning-time-seconds", "SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS",
     "after how long", "stall_check.warning_time_seconds"},
    {kReports, "stall-check-shutdown-time-seconds", "SECONDS",
     "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "give up on them; 0 = never",
     "stall_check.shutdown_time_seconds"},
    {kReports, "log-with[out]-timestamp", "", "HOROVOD_LOG_HIDE_TIME=0",
     "the time in the engine's own messages", "logging.with_timestamp"},
    {kReports, "[no-]log-hide-timestamp", "", "HOROVOD_LOG_HIDE_TIME=1",
     "Horovod's older name of the opposite"},
    {kIgnored, "disable-cache", "", warn, "hvdrun caches nothing"},
    {kIgnored, "[no-]torus-allreduce", "", warn, "it is an algorithm for NCCL",
     "params.torus_allreduce"},
    {kIgnored, "tcp", "", warn,
     "MPI chooses its transport; "
     "--mpi-args=\"--mca pml ob1 --mca btl tcp,self\" forces TCP",
     "library_options.tcp"},
    {kIgnored, "num-nccl-streams", "N", warn, "it is for NCCL", "library_options.num_nccl_streams"},
    {kIgnored, "gloo-timeout-seconds", "SECONDS", warn,
     "there is no Gloo; --start-timeout limits the start", "library_options.gloo_timeout_seconds"},
    {kRefused, "x", "NAME=VALUE", refuse,
     "it is mpirun's; the variables of this shell reach the ranks of this machine, and "
     "HOROVOD_* and HVD_* those of all: NAME=VALUE hvdrun ...; for the others there is "
     "--mpi-args=\"-x NAME=VALUE\""},
    {kRefused, "jsrun", "", refuse, "there is no support for LSF's jsrun; give -H and use ssh"},
    {kRefused, "min-np,min-num-proc", "N", refuse, kElastic},
    {kRefused, "max-np,max-num-proc", "N", refuse, kElastic},
    {kRefused, "slots-per-host", "N", refuse, kElastic},
    {kRefused, "elastic-timeout", "SECONDS", refuse, kElastic},
    {kRefused, "reset-limit", "N", refuse, kElastic},
    {kRefused, "blacklist-cooldown-range", "MIN MAX", refuse, kElastic},
    {kRefused, "host-discovery-script", "FILE", refuse, kElastic},
};

void set_variable(Options& options, const Given& given, const std::string& target) {
  const std::string variable = given.row->subject();
  std::string value = given.value;
  if (given.row->value.empty()) {
    value = target.substr(variable.size() + 1);
    if (!given.on) value = value == "1" ? "0" : "1";
  } else if (given.row->value == kMib) {
    const double mib = number(given, 0.0, 1048576.0, "MiB, a number from 0 (no fusion) to 1048576");
    value = std::to_string(static_cast<std::size_t>(mib * 1024 * 1024));
  }
  check_setting(variable, value, given.written);
  options.settings[variable] = {value, given.source};
}

}  // namespace

std::string OptionRow::called(bool on) const {
  const std::size_t open = names.find('[');
  if (open == std::string::npos) return on ? names : "";
  const std::size_t close = names.find(']');
  return names.substr(0, open) + (on ? "" : names.substr(open + 1, close - open - 1)) +
         names.substr(close + 1);
}

std::string OptionRow::subject() const {
  const auto* variable = std::get_if<const char*>(&target);
  return variable == nullptr ? names : std::string(*variable, std::strcspn(*variable, "="));
}

const std::vector<OptionRow>& option_table() {
  return kOptions;
}

void apply(Options& options, const Given& given) {
  if (const auto* take = std::get_if<Take>(&given.row->target)) return (*take)(options, given);
  set_variable(options, given, std::get<const char*>(given.row->target));
}

}  // namespace hvd::runner
