#pragma once

#include <string>
#include <vector>

namespace hvd::runner {

// One scalar of a configuration file.
struct ConfigEntry {
  std::string key;    // path with dots: "params.cycle_time_ms"
  std::string value;  // a list as its elements with commas
  int line = 0;       // counts from 1
};

// Reads the YAML file of --config-file: maps of scalars and lists of scalars. Throws
// InvalidArgumentError naming file and line when it cannot be read or has another form.
std::vector<ConfigEntry> read_config_file(const std::string& path);

}  // namespace hvd::runner
