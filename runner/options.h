#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/hosts.h"

namespace hvd::runner {

// What the user asked hvdrun for.
struct Options {
  int np = 0;                                   // number of ranks
  std::vector<HostSlots> hosts;                 // empty = this machine, or what a scheduler granted
  std::string timeline_filename;                // empty = none
  std::optional<std::size_t> fusion_threshold;  // bytes
  bool verbose = false;
  bool help = false;
  bool version = false;
  bool check_build = false;
  std::vector<std::string> command;  // the program and its arguments, untouched
};

// `arguments` is argv without the program's own name. Everything from the first word that is
// neither an option nor an option's value belongs to the program and is not looked at. Long
// options may be written with one dash (-np 2). Throws InvalidArgumentError naming the option.
Options parse_options(std::span<const std::string> arguments);

std::string help_text();

}  // namespace hvd::runner
