#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/plan/option_table.h"

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

struct CommandLine {
  std::vector<Given> given;          // hvdrun's options, in their order
  std::vector<std::string> program;  // and its arguments, untouched
};

// Horovod's grammar: long names after one dash or two, a value in the next word, after '=' or, a
// number, right after a short or long name (-np2); "--" or the first word that is neither an option
// nor its value ends the options. Throws InvalidArgumentError naming the option.
CommandLine read_command_line(std::span<const std::string> arguments);

// What `hvdrun --help` prints, or `--help-all`: lines of at most 100 characters.
std::string help_text(bool all);

}  // namespace hvd::runner
