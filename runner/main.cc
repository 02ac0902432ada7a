#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/config/config.h"
#include "core/system/files.h"
#include "core/system/host.h"
#include "ops/connect/backends.h"
#include "runner/job.h"
#include "runner/plan/option_table.h"
#include "runner/process.h"

namespace hvd::runner {

// From build_table.cc.in, which CMake fills in.
std::string_view build_table();

namespace {

constexpr int kUsage = 2;

LaunchContext look_around() {
  LaunchContext context;
  context.mpirun = find_in_path("mpirun", environment("PATH").value_or("/usr/bin:/bin"));
  context.hvdrun = std::filesystem::read_symlink("/proc/self/exe");
  context.hostname = engine::host_name();
  std::error_code gone;
  context.folder = std::filesystem::current_path(gone);
  context.cores = usable_cores();
  context.is_root = geteuid() == 0;
  context.environment = current_environment();
  return context;
}

// A connection and perhaps two files a rank, and a few more.
void raise_file_limit(int ranks) {
  const rlim_t needed = 3 * static_cast<rlim_t>(ranks) + 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The version, what the build has, the backends that can be used here, and what starts ranks.
std::string describe_build() {
  std::ostringstream text;
  const auto add = [&](bool usable, const std::string& name, const std::string& detail) {
    text << "  [" << (usable ? 'x' : ' ') << "] " << std::left << std::setw(9) << name << detail
         << '\n';
  };
  text << "hvdrun (horovod_cpp) " HVD_VERSION "\n\nBuilt with\n"
       << build_table() << "\nUsable here\n";
  for (const engine::BackendInfo& backend : engine::backends())
    add(backend.usable, backend.name, backend.detail);
  const std::string mpirun = find_in_path("mpirun", environment("PATH").value_or(""));
  add(!mpirun.empty(), "mpirun",
      mpirun.empty() ? "not in PATH: apt-get install openmpi-bin" : mpirun);
  return text.str();
}

// Every setting as a rank that is started from here would have it.
std::string describe_settings_here(const Options& options) {
  for (const auto& [name, value] : settings_environment(options)) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::string text;
  for (const SettingInfo& row : describe_settings(read_config())) {
    text += row.name + "=" + row.value + "\n    " + row.meaning +
            "\n    value: " + name_of(row.agreement) + "\n    from: " + row.source;
    if (row.value != row.default_value) text += "; default: '" + row.default_value + "'";
    text += "\n";
  }
  return text;
}

// What the user asked to be told instead of starting a job; "" = nothing. Throws
// InvalidArgumentError on a malformed variable.
std::string requested_text(const Options& options) {
  if (options.help || options.help_all) return help_text(options.help_all);
  if (options.version) return "hvdrun (horovod_cpp) " HVD_VERSION "\n";
  if (options.check_build) return describe_build();
  return options.help_settings ? describe_settings_here(options) : "";
}

int run(std::span<const std::string> arguments) {
  if (!arguments.empty() && arguments[0] == "agent") return run_agent(arguments.subspan(1));
  const bool relays = !arguments.empty() && arguments[0] == "--relay";
  Options options;
  try {
    options = parse_options(arguments.subspan(relays ? 1 : 0), current_environment());
  } catch (const InvalidArgumentError& error) {
    std::fprintf(stderr, "hvdrun: %s\n", error.what());
    return kUsage;
  }
  if (const std::string text = requested_text(options); !text.empty()) {
    if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
    throw InternalError("cannot write standard output: ", std::strerror(errno));
  }
  raise_file_limit(options.np);
  if (relays) return run_relay(options, look_around());
  return run_job(options, look_around());
}

}  // namespace
}  // namespace hvd::runner

int main(int argc, char** argv) {
  try {
    hvd::engine::open_standard_streams();
    std::signal(SIGCHLD, SIG_DFL);  // ignored, it would hide how children end
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return hvd::runner::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hvdrun: %s\n", error.what());
    return 1;
  }
}
