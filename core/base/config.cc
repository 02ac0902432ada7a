#include "core/base/config.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "core/base/log.h"
#include "core/base/status.h"

namespace hvd {
namespace {

[[noreturn]] void bad_value(const char* name, std::string_view value, const char* accepted) {
  throw InvalidArgumentError(std::string(name) + "='" + std::string(value) + "': expected " +
                             accepted);
}

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

std::size_t read_size(const char* name, std::size_t fallback) {
  const auto text = environment(name);
  if (!text) return fallback;
  const auto value = parse_number<std::uint64_t>(*text);
  if (!value) bad_value(name, *text, "a whole number of at least 0");
  return static_cast<std::size_t>(*value);
}

bool read_flag(const char* name) {
  const auto text = environment(name);
  if (!text) return false;
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (*text == yes) return true;
  }
  for (const char* no : {"0", "false", "no", "off", ""}) {
    if (*text == no) return false;
  }
  bad_value(name, *text, "0 or 1");
}

// `unit` is what the number counts.
Duration read_duration(const char* name, Duration fallback, Duration unit) {
  const auto text = environment(name);
  if (!text) return fallback;
  const auto value = parse_number<double>(*text);
  if (!value || !std::isfinite(*value) || *value < 0 || *value > 1e9) {
    bad_value(name, *text, "a number from 0 to 1e9");
  }
  return std::chrono::duration_cast<Duration>(unit * *value);
}

void check_log_level(const char* name) {
  const auto text = environment(name);
  if (text && !parse_log_level(*text)) {
    bad_value(name, *text, "debug, info, warning, error or off");
  }
}

struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* size;
  bool speaks_mpi;
};

// In order of trust: MPI's own variables name the world that MPI_Init will find, whoever started
// mpirun; then our launcher's, then those that others set.
constexpr std::array<LauncherVariables, 6> kLaunchers = {{
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true},
    {"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", true},
    {"PMIx", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", true},
    {"hvdrun", "HOROVOD_RANK", "HOROVOD_SIZE", false},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", false},
    {"torchrun", "RANK", "WORLD_SIZE", false},
}};

std::optional<int> read_int(const char* name) {
  const auto text = environment(name);
  return text ? parse_number<int>(*text) : std::nullopt;
}

// A batch script has a SLURM_PROCID too, but it is one process, started once; srun's tasks inherit
// its variables and have a step.
bool in_batch_script() {
  return environment("ENVIRONMENT") == "BATCH" && !environment("SLURM_STEP_ID");
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

Config read_config() {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  Config config;
  config.fusion_threshold = read_size("HOROVOD_FUSION_THRESHOLD", config.fusion_threshold);
  config.batching_gap = read_duration("HOROVOD_CYCLE_TIME", config.batching_gap, milliseconds(1));
  config.cache_capacity = read_size("HOROVOD_CACHE_CAPACITY", config.cache_capacity);
  config.stall_warning =
      read_duration("HOROVOD_STALL_CHECK_TIME_SECONDS", config.stall_warning, seconds(1));
  if (read_flag("HOROVOD_STALL_CHECK_DISABLE")) config.stall_warning = Duration::zero();
  config.stall_limit =
      read_duration("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", config.stall_limit, seconds(1));
  config.start_timeout = read_duration("HOROVOD_START_TIMEOUT", config.start_timeout, seconds(1));
  check_log_level("HOROVOD_LOG_LEVEL");
  config.hostname = environment("HOROVOD_HOSTNAME").value_or("");
  config.timeline = environment("HOROVOD_TIMELINE").value_or("");
  return config;
}

LaunchInfo read_launch_info() {
  for (const LauncherVariables& row : kLaunchers) {
    const bool other = !row.speaks_mpi;  // these names are also set where nothing was launched
    if (!environment(row.rank) || (other && !environment(row.size))) continue;
    if (row.launcher == std::string_view("Slurm") && in_batch_script()) continue;
    return {row.launcher, read_int(row.rank), read_int(row.size), row.speaks_mpi};
  }
  return {};
}

}  // namespace hvd
