#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/config/log.h"
#include "core/config/port_range.h"

namespace hvd {

// How ranks of several hosts, and without MPI, find and reach each other: settings of Config.
struct NetworkSettings {
  // Names with commas; empty = whatever reaches the other hosts. For control messages.
  std::string network_interfaces;
  PortRange port_range;
  std::string advertise_address;                    // empty = those at which this rank listens
  Duration link_timeout = std::chrono::seconds(5);  // of control messages between hosts
  std::string rendezvous;  // empty = by what the launcher left; see ops/connect/meeting.h
  bool require_key = false;
};

// What is in force, one member per setting. The table in config.cc says which variable fills which
// member, what it accepts and what it means; describe_settings() shows it.
struct Config : NetworkSettings {
  std::size_t fusion_threshold = 1 << 20;  // bytes; 0 = no fusion
  Duration batching_gap = Duration::zero();
  std::size_t cache_capacity = 4096;  // response slots
  bool disable_group_fusion = false;
  bool deterministic = false;

  bool stall_check_disable = false;
  Duration stall_warning = std::chrono::seconds(60);  // zero = never
  Duration stall_limit = std::chrono::seconds(600);   // zero = never
  Duration start_timeout = std::chrono::seconds(60);

  std::string timeline;  // empty = none
  bool timeline_mark_cycles = false;
  std::size_t timeline_max_mb = 512;  // MiB
  bool stats = false;
  bool check_parameters = true;
  std::string check_options = "warn";
  bool check_nan = false;
  std::string flight_recorder_dir;  // empty = the user's in the temporary folder
  std::size_t flight_recorder_size = 1024;

  bool autotune = false;
  std::string autotune_log;  // empty = none
  std::size_t autotune_warmup_samples = 3;
  std::size_t autotune_steps_per_sample = 10;
  std::size_t autotune_max_samples = 20;
  double autotune_noise = 0.8;

  LogLevel log_level = LogLevel::kWarning;
  bool log_hide_time = false;

  std::string hostname;  // ranks with one host name share memory; empty = ask the system
  std::vector<int> thread_affinity;  // by local rank: the core of its coordinator; empty = any
  bool bind_cores = true;            // see core/system/core_binding.h
  bool mpi_threads_disable = false;
  bool dynamic_process_sets = true;
  bool hierarchical_allreduce = true;
  bool hierarchical_allgather = true;
  std::string control_plane = "tcp";                     // between hosts: tcp or mpi
  Duration shutdown_timeout = std::chrono::seconds(10);  // until the others answer
  std::string world = "job";
  std::string controller = "auto";
  std::string cpu_operations = "shm";
  std::string gpu_operations = "none";
  bool async_completion = true;

  // Where a value that is not the default came from, by the setting's name.
  std::map<std::string, std::string, std::less<>> sources;

  // Whether the user chose this setting. `name` as in the table: "HOROVOD_CYCLE_TIME".
  bool is_default(std::string_view name) const { return !sources.contains(name); }
};

// Fills a Config from the environment. Malformed values and contradictions throw
// InvalidArgumentError naming the variable, the value and what is accepted. Variables of Horovod's
// that mean nothing here, and unknown HOROVOD_ and HVD_ names, are warned about once a
// process, on rank 0.
Config read_config();

// How the ranks of a job stand to a setting. They tell each other the values before anything
// depends on them (ops/connect/introduction.h).
enum class Agreement : std::uint8_t {
  kEqual,     // chooses an algorithm or what connects the ranks: init() fails where values differ
  kRankZero,  // rank 0's value holds on all ranks
  kPerRank,   // concerns its rank alone, or how that finds the others
};

// "the same on all ranks", "that of rank 0", "each rank has its own": whose value counts.
const char* name_of(Agreement agreement);

// One row of describe_settings().
struct SettingInfo {
  std::string name;   // of the environment variable
  std::string value;  // as one would write it into the variable
  std::string default_value;
  // "default", "environment", "hvdrun --cycle-time-ms", "job.yaml:3" (hvdrun's --config-file),
  // the name of the setting that implies this one, or "rank 0", if its value is another than this
  // rank's own. What autotune chose is in its log, not here.
  std::string source;
  std::string meaning;  // with the unit
  Agreement agreement = Agreement::kPerRank;
};

// Every setting, in the order of the table.
std::vector<SettingInfo> describe_settings(const Config& config);

// Throws InvalidArgumentError naming `origin` (an option, a line of a file) unless `value` is what
// the setting `name` accepts.
void check_setting(std::string_view name, const std::string& value, const std::string& origin);

// Puts rank 0's value of the setting `name`, as SettingInfo has it, in force. Throws
// InvalidArgumentError if it is malformed.
void take_from_rank_zero(Config& config, std::string_view name, const std::string& value);

// Where hvdrun leaves the sources of what it set: "NAME=source" entries, separated by ';'.
inline constexpr const char* kSourcesVariable = "HVD_SETTING_SOURCES";

// The only way to the environment outside config.cc; empty optional when unset.
std::optional<std::string> environment(const char* name);

}  // namespace hvd
