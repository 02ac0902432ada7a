#include "core/config/config.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <set>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/config/launch_info.h"
#include "core/config/setting_kinds.h"
#include "core/config/unknown_variables.h"

namespace hvd {
namespace {

using enum Agreement;

struct Setting {
  const char* name;
  Agreement agreement;
  const char* accepted;
  const char* meaning;
  bool (*read)(Config&, std::string_view);  // false = malformed
  std::string (*write)(const Config&);
};

// The agreement has no default: a new setting has to say whether ranks must agree on it.
template <Agreement Among, const auto& kKind, auto Member>
Setting setting(const char* name, const char* meaning) {
  return {name,
          Among,
          kKind.accepted,
          meaning,
          [](Config& config, std::string_view text) {
            const auto value = kKind.read(text);
            if (value) config.*Member = *value;
            return value.has_value();
          },
          [](const Config& config) { return kKind.write(config.*Member); }};
}

const std::array kSettings = {
    setting<kRankZero, kinds::kWholeNumber, &Config::fusion_threshold>(
        "HOROVOD_FUSION_THRESHOLD",
        "bytes that may share one fused batch, and for which gradients wait during "
        "backward(); 0 turns fusion off"),
    setting<kRankZero, kinds::kMilliseconds, &Config::batching_gap>(
        "HOROVOD_CYCLE_TIME", "least milliseconds between two batches"),
    setting<kRankZero, kinds::kWholeNumber, &Config::cache_capacity>(
        "HOROVOD_CACHE_CAPACITY", "tensors whose negotiation is remembered; 0 = none"),
    setting<kRankZero, kinds::kFlag, &Config::disable_group_fusion>(
        "HOROVOD_DISABLE_GROUP_FUSION", "1 = only what was submitted as a group is fused"),
    setting<kEqual, kinds::kFlag, &Config::deterministic>(
        "HOROVOD_DETERMINISTIC",
        "1 = bitwise equal runs: only what was submitted as a group is fused"),
    setting<kRankZero, kinds::kSeconds, &Config::stall_warning>(
        "HOROVOD_STALL_CHECK_TIME_SECONDS",
        "report a tensor that some ranks did not submit after this many seconds; 0 = never"),
    setting<kRankZero, kinds::kSeconds, &Config::stall_limit>(
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "give up on it after this many seconds; 0 = never"),
    setting<kRankZero, kinds::kFlag, &Config::stall_check_disable>(
        "HOROVOD_STALL_CHECK_DISABLE",
        "1 = no such reports, and no giving up unless the limit is set as well"),
    setting<kPerRank, kinds::kSecondsAboveZero, &Config::start_timeout>(
        "HOROVOD_START_TIMEOUT", "seconds that init() and hvdrun wait for the ranks to start"),
    setting<kRankZero, kinds::kTimelinePath, &Config::timeline>(
        "HOROVOD_TIMELINE", "file for a trace of this job that Perfetto opens; DYNAMIC = none yet"),
    setting<kRankZero, kinds::kFlag, &Config::timeline_mark_cycles>(
        "HOROVOD_TIMELINE_MARK_CYCLES", "1 = mark each decision of rank 0 in the trace"),
    setting<kRankZero, kinds::kPositiveNumber, &Config::timeline_max_mb>(
        "HVD_TIMELINE_MAX_MB", "MiB after which the trace ends"),
    setting<kRankZero, kinds::kFlag, &Config::stats>("HVD_STATS",
                                                     "1 = one line of statistics at exit"),
    setting<kRankZero, kinds::kFlag, &Config::check_parameters>(
        "HVD_CHECK_PARAMETERS", "0 = no warning if ranks train with different parameters"),
    setting<kRankZero, kinds::kCheck, &Config::check_options>(
        "HVD_CHECK_OPTIONS",
        "what follows if the ranks' optimizers differ in class or options, such as lr: warn, error "
        "or 0"),
    setting<kRankZero, kinds::kFlag, &Config::check_nan>(
        "HVD_CHECK_NAN",
        "1 = what a rank gives to be summed must be finite; else the call fails on all ranks and "
        "names rank and tensor"),
    setting<kPerRank, kinds::kText, &Config::flight_recorder_dir>(
        "HVD_FLIGHT_RECORDER_DIR",
        "folder that gets a folder for each failed job, with the last operations of its ranks; "
        "empty "
        "= horovod_cpp-<user number> in the temporary folder"),
    setting<kPerRank, kinds::kOperations, &Config::flight_recorder_size>(
        "HVD_FLIGHT_RECORDER_SIZE", "operations that are kept for that; 0 = none"),
    setting<kRankZero, kinds::kFlag, &Config::autotune>(
        "HOROVOD_AUTOTUNE",
        "1 = search for the best fusion threshold and cycle time while training"),
    setting<kRankZero, kinds::kText, &Config::autotune_log>(
        "HOROVOD_AUTOTUNE_LOG", "file for what autotune tried (CSV, rank 0)"),
    setting<kRankZero, kinds::kWholeNumber, &Config::autotune_warmup_samples>(
        "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "samples that autotune discards at the start"),
    setting<kRankZero, kinds::kPositiveNumber, &Config::autotune_steps_per_sample>(
        "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "repetitions of a tensor that make one sample"),
    setting<kRankZero, kinds::kPositiveNumber, &Config::autotune_max_samples>(
        "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
        "most settings that autotune tries; its sweep tries at most 16"),
    setting<kPerRank, kinds::kFraction, &Config::autotune_noise>(
        "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
        "accepted without effect: autotune uses no Gaussian process"),
    setting<kPerRank, kinds::kLevel, &Config::log_level>(
        "HOROVOD_LOG_LEVEL", "least level of the messages on standard error"),
    setting<kPerRank, kinds::kFlag, &Config::log_hide_time>("HOROVOD_LOG_HIDE_TIME",
                                                            "1 = log lines without the time"),
    setting<kPerRank, kinds::kText, &Config::hostname>(
        "HOROVOD_HOSTNAME",
        "ranks with one host name share memory; empty = the system's name and boot"),
    setting<kPerRank, kinds::kCores, &Config::thread_affinity>(
        "HOROVOD_THREAD_AFFINITY",
        "cores for the engine's threads, one per local rank, such as 0,8; empty = any core"),
    setting<kPerRank, kinds::kFlag, &Config::bind_cores>(
        "HVD_BIND_CORES",
        "0 = ranks of one host do not share out its cores among them, but wander over all"),
    setting<kPerRank, kinds::kFlag, &Config::mpi_threads_disable>(
        "HOROVOD_MPI_THREADS_DISABLE", "1 = ask MPI for calls from one thread at a time only"),
    setting<kPerRank, kinds::kFlag, &Config::dynamic_process_sets>(
        "HOROVOD_DYNAMIC_PROCESS_SETS", "accepted; process sets can always be added and removed"),
    setting<kPerRank, kinds::kText, &Config::network_interfaces>(
        "HOROVOD_GLOO_IFACE",
        "interfaces for control messages between hosts, such as eth0,ib0; empty = what reaches "
        "the others"),
    setting<kPerRank, kinds::kPorts, &Config::port_range>(
        "HVD_PORT_RANGE",
        "ports at which ranks listen for those of other hosts, such as 20000-20100; empty = those "
        "that the system chooses"),
    setting<kPerRank, kinds::kText, &Config::advertise_address>(
        "HVD_ADVERTISE_ADDRESS",
        "name or address at which ranks of other hosts reach this one, where that is not its own "
        "(NAT, containers); empty = those of its interfaces"),
    setting<kEqual, kinds::kFlag, &Config::hierarchical_allreduce>(
        "HOROVOD_HIERARCHICAL_ALLREDUCE",
        "1 = on several hosts, reduce inside each host before between them"),
    setting<kEqual, kinds::kFlag, &Config::hierarchical_allgather>(
        "HOROVOD_HIERARCHICAL_ALLGATHER",
        "1 = on several hosts, send to each host once and share it there"),
    setting<kEqual, kinds::kControlTransport, &Config::control_plane>(
        "HVD_CONTROL_PLANE",
        "what carries control messages between hosts: tcp, or mpi where TCP does not connect them "
        "(it polls, and notices no host that dies)"),
    setting<kRankZero, kinds::kPositiveSeconds, &Config::link_timeout>(
        "HVD_LINK_TIMEOUT_SECONDS",
        "seconds without a sign of life (heartbeats, acknowledgements) after which a host's ranks "
        "are taken for lost (control messages over TCP)"),
    setting<kRankZero, kinds::kPositiveSeconds, &Config::shutdown_timeout>(
        "HVD_SHUTDOWN_TIMEOUT_SECONDS",
        "seconds that a rank which shuts down or fails waits for the answer of the others"),
    setting<kPerRank, kinds::kWorldChoice, &Config::world>(
        "HVD_WORLD",
        "job = the one that a launcher started this process for; self = a world of one, for what a "
        "rank starts"),
    setting<kEqual, kinds::kController, &Config::controller>(
        "HOROVOD_CONTROLLER",
        "how the ranks connect: mpi, gloo = without MPI, auto = by MPI if it started them"),
    setting<kPerRank, kinds::kText, &Config::rendezvous>(
        "HVD_RENDEZVOUS",
        "where the ranks meet without MPI: tcp://host:port of rank 0, file:///folder/name (shared "
        "by all hosts), unix:name (on one host) or env:// (MASTER_ADDR and MASTER_PORT); empty = "
        "what the launcher left"),
    setting<kPerRank, kinds::kFlag, &Config::require_key>(
        "HVD_REQUIRE_KEY",
        "1 = ranks do not meet at a network port without a key (HVD_RENDEZVOUS_KEY, or the one in "
        "a file://); 0 = they do, with a warning"),
    setting<kEqual, kinds::kCpuOperations, &Config::cpu_operations>(
        "HOROVOD_CPU_OPERATIONS",
        "how tensors move: shm = through shared memory inside a host, and between hosts by MPI if "
        "it started them, else over TCP; mpi = always by MPI; tcp = over TCP, except inside the "
        "hosts of a job that has several"),
    setting<kEqual, kinds::kGpuOperations, &Config::gpu_operations>(
        "HVD_GPU_OPERATIONS",
        "how tensors of GPUs move: nccl = by NCCL, with a GPU for each rank; ipc = through each "
        "other's GPU memory, for ranks of one host, which may share a GPU; host = by way of host "
        "memory; auto = the first of them that fits; none = not at all"),
    setting<kPerRank, kinds::kFlag, &Config::async_completion>(
        "HOROVOD_ENABLE_ASYNC_COMPLETION",
        "1 = results on GPUs are waited for by the caller's stream; 0 = by the host"),
};

const Setting& find_setting(std::string_view name) {
  for (const Setting& row : kSettings) {
    if (name == row.name) return row;
  }
  throw InternalError("there is no setting " + std::string(name));
}

[[noreturn]] void bad_value(const std::string& origin, std::string_view value,
                            const std::string& accepted) {
  throw InvalidArgumentError(origin + "='" + std::string(value) + "': expected " + accepted);
}

// "NAME=source;NAME=source"
std::map<std::string, std::string, std::less<>> read_sources() {
  std::map<std::string, std::string, std::less<>> sources;
  const std::string text = environment(kSourcesVariable).value_or("");
  for (const std::string_view entry : split(text, ';')) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    sources.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return sources;
}

void imply(Config& config, const char* name, const char* by) {
  config.sources[name] = by;
}

void settle(Config& config) {
  if (config.stall_check_disable) {
    config.stall_warning = Duration::zero();
    imply(config, "HOROVOD_STALL_CHECK_TIME_SECONDS", "HOROVOD_STALL_CHECK_DISABLE");
    if (config.is_default("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS")) {
      config.stall_limit = Duration::zero();
      imply(config, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "HOROVOD_STALL_CHECK_DISABLE");
    }
  }
  if (config.deterministic && config.autotune) {
    throw InvalidArgumentError(
        "HOROVOD_DETERMINISTIC=1 and HOROVOD_AUTOTUNE=1: a run whose settings change is not "
        "reproducible; unset one of them");
  }
}

void warn_once(const std::string& name, const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::lock_guard lock(mutex);
  if (warned.insert(name).second) log(LogLevel::kWarning, text);
}

// HOROVOD_* and HVD_*.
std::map<std::string, std::string> our_variables() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    if (!text.starts_with("HOROVOD_") && !text.starts_with("HVD_")) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

void warn_of_unknown_variables(const Config& config) {
  if (read_launch_info().rank.value_or(0) != 0) return;
  std::vector<std::string> names;
  for (const Setting& row : kSettings) names.emplace_back(row.name);
  for (const UnknownVariable& unknown : find_unknown_variables(our_variables(), names)) {
    warn_once(unknown.name, unknown.text);
  }
  if (config.cpu_operations == "gloo") {
    warn_once("gloo",
              "HOROVOD_CPU_OPERATIONS: there is no Gloo here; tensors move through shared memory "
              "and, between hosts, over TCP or by MPI");
  }
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

Config read_config() {
  Config config;
  const auto sources = read_sources();
  for (const Setting& row : kSettings) {
    const auto text = environment(row.name);
    if (!text) continue;
    const auto source = sources.find(row.name);
    const bool by_hvdrun = source != sources.end();
    const std::string origin =
        by_hvdrun ? std::string(row.name) + " (" + source->second + ")" : std::string(row.name);
    if (!row.read(config, *text)) bad_value(origin, *text, row.accepted);
    config.sources[row.name] = by_hvdrun ? source->second : "environment";
  }
  settle(config);
  warn_of_unknown_variables(config);
  return config;
}

std::vector<SettingInfo> describe_settings(const Config& config) {
  const Config defaults;
  std::vector<SettingInfo> rows;
  for (const Setting& row : kSettings) {
    const auto source = config.sources.find(row.name);
    rows.push_back({row.name, row.write(config), row.write(defaults),
                    source == config.sources.end() ? "default" : source->second, row.meaning,
                    row.agreement});
  }
  return rows;
}

void check_setting(std::string_view name, const std::string& value, const std::string& origin) {
  const Setting& row = find_setting(name);
  Config scratch;
  if (!row.read(scratch, value)) bad_value(origin, value, row.accepted);
}

void take_from_rank_zero(Config& config, std::string_view name, const std::string& value) {
  const Setting& row = find_setting(name);
  if (row.write(config) == value) return;
  if (!row.read(config, value)) bad_value(row.name, value, row.accepted);
  config.sources[row.name] = "rank 0";
}

const char* name_of(Agreement agreement) {
  switch (agreement) {
    case kEqual:
      return "the same on all ranks";
    case kRankZero:
      return "that of rank 0";
    case kPerRank:
      return "each rank has its own";
  }
  return "?";
}

}  // namespace hvd
