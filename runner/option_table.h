#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::runner {

enum class Effect {
  kOwn,      // hvdrun's own: parse_options() knows it by name
  kSetting,  // sets a HOROVOD_* or HVD_* variable for the ranks
  kIgnored,  // accepted with a warning that says why it does nothing
  kRefused,  // an error that says why
};

// One option of the command line and, if it has a key, of the --config-file.
struct OptionRow {
  Effect effect = Effect::kOwn;
  std::string_view names = {};    // "np,num-proc": the first is the one that is shown
  char letter = 0;                // "-H"
  std::string_view value = {};    // what its value is; "" = takes none
  std::string_view key = {};      // "autotune.log_file"; "" = not in the file
  std::string_view setting = {};  // kSetting: the variable
  std::string_view gives = {};    // kSetting without a value: what the variable becomes
  std::string_view text = {};     // what it does, or why it does nothing
  bool in_mib = false;            // its value counts MiB, the variable bytes
  bool repeatable = false;
  int values = 1;  // kIgnored and kRefused: words that follow it, if any

  std::string_view name() const { return names.substr(0, names.find(',')); }
  bool takes_value() const { return !value.empty(); }
  bool is_called(std::string_view word) const;
};

std::span<const OptionRow> option_table();

// Null when no row has it. `written` is a word such as "-np", "--hosts" or "-H".
const OptionRow* find_option(std::string_view written);
// An option and its value in one word, as other programs take them: "-n2", "-np2", "-p22",
// "-Hnode1:4".
struct JoinedOption {
  const OptionRow* row = nullptr;
  std::string_view option;  // "-np"
  std::string_view value;   // "2"
};
// Empty if `written` is none.
std::optional<JoinedOption> split_joined_option(std::string_view written);

// The row with this key in the configuration file; of a pair (--x, --no-x) the one for `on`.
const OptionRow* find_key(std::string_view key, bool on = true);

// The first name of every row with its dashes: "--np".
std::vector<std::string> option_words();

// What `hvdrun --help` prints: lines of at most 100 characters in which no word is broken.
std::string help_text();

}  // namespace hvd::runner
