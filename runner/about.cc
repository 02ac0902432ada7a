#include "runner/about.h"

#include <cstdlib>

#include "core/config/config.h"
#include "ops/connect/backends.h"
#include "runner/plan/command_line.h"
#include "runner/plan/launch_plan.h"
#include "runner/process.h"

namespace hvd::runner {

// From build_table.cc.in, which CMake fills in.
std::string_view build_table();

namespace {

std::string pad(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// The version, what the build has, the backends that can be used here, and what starts ranks.
std::string describe_build() {
  std::string text = "hvdrun (horovod_cpp) " HVD_VERSION "\n\nBuilt with\n";
  text += build_table();
  text += "\nUsable here\n";
  for (const BackendInfo& backend : backends()) {
    text += std::string("  [") + (backend.usable ? 'x' : ' ') + "] " + pad(backend.name, 9) +
            backend.detail + "\n";
  }
  const std::string mpirun = find_in_path("mpirun", environment("PATH").value_or(""));
  text += std::string("  [") + (mpirun.empty() ? ' ' : 'x') + "] " + pad("mpirun", 9) +
          (mpirun.empty() ? "not in PATH: apt-get install openmpi-bin" : mpirun) + "\n";
  return text;
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

}  // namespace

std::string requested_text(const Options& options) {
  if (options.help || options.help_all) return help_text(options.help_all);
  if (options.version) return "hvdrun (horovod_cpp) " HVD_VERSION "\n";
  if (options.check_build) return describe_build();
  return options.help_settings ? describe_settings_here(options) : "";
}

}  // namespace hvd::runner
