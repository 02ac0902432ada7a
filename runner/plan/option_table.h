#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runner/plan/options.h"

namespace hvd::runner {

struct OptionRow;

// One option of the command line or one line of the configuration file.
struct Given {
  const OptionRow* row = nullptr;
  bool on = true;       // false: by a name, or a value in the file, that turns it off
  std::string written;  // "-np", "job.yaml:3: params.cycle_time_ms"
  std::string source;   // "hvdrun -np", "job.yaml:3"
  std::string value;
};

using Take = void (*)(Options&, const Given&);

// Where an option goes: a variable of the ranks ("HOROVOD_CYCLE_TIME"; of a flag with its value,
// "HOROVOD_AUTOTUNE=1"), or a function.
using Target = std::variant<const char*, Take>;

struct OptionGroup {
  const char* title;
  bool common;  // in the short --help
};

struct OptionRow {
  const OptionGroup& group;
  // As Boost.Program_options has them: "np,num-proc,n" is --np, --num-proc and -n. "[no-]autotune"
  // is --autotune, and --no-autotune that turns it off.
  std::string names;
  std::string value;  // what its value is; "" = a flag
  Target target;
  std::string text;      // what it does, or why it does nothing
  std::string key = {};  // in the --config-file: "autotune.log_file"; "" = not there

  // The names that turn it on, or off; "" = none.
  std::string called(bool on) const;
  // The variable, or else the names: two options with the same subject contradict each other.
  std::string subject() const;
};

// By groups.
const std::vector<OptionRow>& option_table();

// Puts `given` where its row says. Throws InvalidArgumentError naming it and its value.
void apply(Options& options, const Given& given);

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
