#include "runner/plan/options.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "runner/plan/command_line.h"
#include "runner/plan/option_table.h"
#include "runner/plan/slurm.h"

namespace hvd::runner {
namespace {

bool yaml_flag(const ConfigEntry& entry, const std::string& place) {
  for (const char* yes : {"true", "yes", "on", "1"}) {
    if (entry.value == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    if (entry.value == no) return false;
  }
  throw InvalidArgumentError(place + ": " + entry.key + ": '" + entry.value +
                             "': expected true or false");
}

// What the file says and the command line does not.
std::vector<Given> read_file(const std::string& path, const std::vector<Given>& stronger) {
  const std::vector<OptionRow>& table = option_table();
  std::vector<Given> all;
  for (const ConfigEntry& entry : read_config_file(path)) {
    const std::string place = path + ":" + std::to_string(entry.line);
    const auto row = std::find_if(table.begin(), table.end(), [&](const OptionRow& each) {
      return !each.key.empty() && each.key == entry.key;
    });
    if (row == table.end()) {
      throw InvalidArgumentError(place + ": unknown key " + entry.key +
                                 "; docs/launch.md lists the keys");
    }
    const bool on = !row->value.empty() || yaml_flag(entry, place);
    if (!on && row->called(false).empty()) continue;
    const bool overruled = std::any_of(stronger.begin(), stronger.end(), [&](const Given& other) {
      return other.row->subject() == row->subject();
    });
    if (!overruled) all.push_back({&*row, on, place + ": " + entry.key, place, entry.value});
  }
  return all;
}

void use_slurm(Options& options, const Environment& environment) {
  if (!options.hosts.empty()) return;
  const auto job = slurm_job(environment);
  if (!job) return;
  options.hosts = job->hosts;
  if (options.np == 0) options.np = job->tasks.value_or(0);
  if (options.np > total_slots(options.hosts)) {
    throw InvalidArgumentError("-np " + std::to_string(options.np) +
                               ": more ranks than this Slurm job has tasks (" +
                               std::to_string(total_slots(options.hosts)) + ", on " +
                               to_string(options.hosts) + "); ask sbatch or salloc for more (-n)");
  }
}

// Most ranks that one machine gets: mpirun fills the machines in order.
int most_ranks_together(const Options& options) {
  int left = options.np;
  int most = options.hosts.empty() ? options.np : 0;
  for (const HostSlots& host : options.hosts) {
    most = std::max(most, std::min(host.slots, left));
    left -= std::min(host.slots, left);
  }
  return most;
}

// Horovod's launcher takes one number where its engine wants a list; the list is checked here.
void check_affinity(const Options& options) {
  const auto chosen = options.settings.find("HOROVOD_THREAD_AFFINITY");
  if (chosen == options.settings.end()) return;
  const std::string& cores = chosen->second.value;
  const auto count = 1 + std::count(cores.begin(), cores.end(), ',');
  const int needed = most_ranks_together(options);
  if (count >= needed) return;
  throw InvalidArgumentError("--thread-affinity " + cores + ": " + std::to_string(count) +
                             " cores, but a machine has " + std::to_string(needed) +
                             " ranks; give a core for each, such as 0,1,2");
}

void check(const Options& options) {
  if (options.np == 0) {
    throw InvalidArgumentError("-np: missing; say how many ranks to start, such as hvdrun -np 2 " +
                               (options.command.empty() ? "./train" : join_words(options.command)));
  }
  if (options.command.empty()) {
    throw InvalidArgumentError("no program given; hvdrun -np " + std::to_string(options.np) +
                               " needs one after its options, such as python train.py");
  }
  if (options.command[0].empty()) throw InvalidArgumentError("the program's name is empty");
  if (!options.hosts.empty() && options.np > total_slots(options.hosts)) {
    throw InvalidArgumentError("-np " + std::to_string(options.np) + ": more ranks than -H " +
                               to_string(options.hosts) + " has slots (" +
                               std::to_string(total_slots(options.hosts)) + ")");
  }
  check_affinity(options);
}

}  // namespace

std::vector<std::string> split_words(std::string_view text, const std::string& option) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < text.size();
    if (quote == 0 && (c == ' ' || c == '\t')) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
    } else if (c == quote && quote != 0) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
      if (!word) word.emplace();
    } else {
      if (!word) word.emplace();
      *word += escapes ? text[++i] : c;
    }
  }
  if (quote != 0) {
    throw InvalidArgumentError(option + ": '" + std::string(text) + "': a quote is not closed");
  }
  if (word) words.push_back(*word);
  return words;
}

std::string join_words(std::span<const std::string> words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

Options parse_options(std::span<const std::string> arguments, const Environment& environment) {
  Options options;
  CommandLine line = read_command_line(arguments);
  for (const Given& given : line.given) apply(options, given);
  if (!options.config_file.empty()) {
    for (const Given& given : read_file(options.config_file, line.given)) apply(options, given);
  }
  options.command = std::move(line.program);
  const bool only_tells = options.help || options.help_all || options.help_settings ||
                          options.version || options.check_build;
  if (only_tells) return options;
  use_slurm(options, environment);
  check(options);
  return options;
}

}  // namespace hvd::runner
