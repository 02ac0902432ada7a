#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/plan/hosts.h"

namespace hvd::runner {

// Names of network interfaces, with commas; empty = any.
inline constexpr const char* kInterfacesVariable = "HOROVOD_GLOO_IFACE";

// A variable that an option or a line of the configuration file sets for the ranks.
struct ChosenSetting {
  std::string value;
  std::string source;  // "hvdrun --cycle-time-ms", "job.yaml:3"
};

// Where something else starts the agents, or an hvdrun on each of `nodes` machines, which starts
// its share of np ranks (torchrun's words).
struct ManualStart {
  std::string key_file;  // of the job's key; empty = one is drawn, or there is none (nodes)
  int nodes = 0;         // 0 = not given
  int node_rank = -1;
  int ranks_per_node = 0;
  bool standalone = false;
  std::string host;  // where the ranks of all nodes meet
  std::uint16_t port = 0;
};

// What the user asked hvdrun for.
struct Options {
  int np = 0;                    // number of ranks
  std::vector<HostSlots> hosts;  // empty = this machine, or what a scheduler granted
  std::map<std::string, ChosenSetting> settings;  // by variable
  std::string config_file;                        // empty = none
  std::string output_folder;                      // empty = none
  bool timestamps = false;                        // before each line of output
  int ssh_port = 0;                               // 0 = ssh's own default
  std::string ssh_identity;                       // empty = ssh's own default
  std::string launcher;  // of agents: "ssh", "slurm", "exec:CMD", "none"; empty = default
  ManualStart manual;
  std::vector<std::string> mpi_args;
  std::vector<std::string> binding_args;  // empty = ranks are not tied to cores
  bool verbose = false;
  bool help = false;
  bool help_all = false;
  bool help_settings = false;
  bool version = false;
  bool check_build = false;
  std::vector<std::string> command;   // the program and its arguments, untouched
  std::vector<std::string> warnings;  // for the user to read
};

// `arguments` is argv without the program's own name; option_table.h has the grammar. Reads the
// --hostfile and the --config-file. In a scheduler's job (by the variables of `environment`) hosts,
// np and launcher default to what was granted. Throws InvalidArgumentError naming the option, or
// file and line.
Options parse_options(std::span<const std::string> arguments, const Environment& environment = {});

// Words as a shell would split them: blanks separate, quotes and backslashes join. Throws
// InvalidArgumentError naming `option` when a quote is open at the end.
std::vector<std::string> split_words(std::string_view text, const std::string& option);

// The opposite, for people to copy: quotes where a shell needs them.
std::string join_words(std::span<const std::string> words);

}  // namespace hvd::runner
