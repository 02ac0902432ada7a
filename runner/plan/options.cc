#include "runner/plan/options.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/config/setting_kinds.h"
#include "runner/plan/option_table.h"
#include "runner/plan/placement.h"

namespace hvd::runner {
namespace {

constexpr int kDeepest = 8;  // maps in maps

// Reads the YAML file of --config-file: maps of scalars and lists of scalars.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& path) : path_(path) {}

  // What it says, in its order. Throws InvalidArgumentError naming file and line.
  std::vector<Given> read() {
    try {
      if (std::filesystem::is_directory(path_)) throw YAML::BadFile(path_);
      for (const YAML::Node& document : YAML::LoadAllFromFile(path_)) {
        if (!document.IsNull()) read_map(document, "");
      }
    } catch (const YAML::BadFile&) {
      throw InvalidArgumentError("--config-file: cannot read '", path_,
                                 "' (a file of 'key: value' lines)");
    } catch (const YAML::ParserException& error) {
      fail(error.mark, error.msg);
    }
    return std::move(given_);
  }

 private:
  std::string place(const YAML::Mark& mark) const { return str_cat(path_, ":", mark.line + 1); }
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& why) const {
    throw InvalidArgumentError(place(mark), ": ", why);
  }

  void read_map(const YAML::Node& map, const std::string& prefix) {
    if (!map.IsMap()) fail(map.Mark(), "expected 'key: value' lines");
    if (std::count(prefix.begin(), prefix.end(), '.') > kDeepest) {
      fail(map.Mark(), "unknown key " + prefix + "..; is a map in itself?");
    }
    for (const auto& pair : map) {
      if (!pair.first.IsScalar()) fail(pair.first.Mark(), "a key must be a single word");
      const std::string key = prefix + pair.first.Scalar();
      if (pair.second.IsMap()) {
        read_map(pair.second, key + ".");
      } else {
        take(key, read_value(pair.second, key, pair.first.Mark()), pair.first.Mark());
      }
    }
  }

  std::string read_value(const YAML::Node& value, const std::string& key, const YAML::Mark& mark) {
    if (value.IsScalar()) return value.Scalar();
    if (!value.IsSequence()) fail(mark, key + ": has no value");
    std::string text;
    for (const YAML::Node& element : value) {
      if (!element.IsScalar()) fail(mark, key + ": expected a list of plain values");
      text += (text.empty() ? "" : ",") + element.Scalar();
    }
    return text;
  }

  void take(const std::string& key, const std::string& value, const YAML::Mark& mark) {
    const auto [before, is_new] = lines_.emplace(key, mark.line + 1);
    if (!is_new) fail(mark, str_cat(key, ": was already given in line ", before->second));
    const std::vector<OptionRow>& table = option_table();
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&](const OptionRow& each) { return each.key == key; });
    if (row == table.end() || key.empty()) {
      fail(mark, "unknown key " + key + "; docs/launch.md lists the keys");
    }
    std::optional<bool> on = true;
    if (row->value.empty()) on = value.empty() ? std::nullopt : kinds::kFlag.read(value);
    if (!on) fail(mark, key + ": '" + value + "': expected true or false");
    if (!*on && row->called(false).empty()) return;
    given_.push_back({&*row, *on, place(mark) + ": " + key, place(mark), value});
  }

  const std::string& path_;
  std::vector<Given> given_;
  std::map<std::string, int> lines_;  // of the keys
};

void use_scheduler(Options& options, const Environment& environment) {
  if (!options.hosts.empty()) return;
  const auto job = scheduled_job(environment);
  if (!job) return;
  if (options.launcher.empty()) options.launcher = job->launcher;
  options.hosts = job->hosts;
  if (options.np == 0) options.np = job->tasks.value_or(0);
  if (options.np > total_slots(options.hosts)) {
    throw InvalidArgumentError("-np ", options.np, ": more ranks than this ", job->scheduler,
                               " job has tasks (", total_slots(options.hosts), ", on ",
                               to_string(options.hosts),
                               "); ask the scheduler for more (sbatch -n, for instance)");
  }
}

bool has_nodes(const ManualStart& manual) {
  return manual.standalone || manual.nodes != 0 || manual.ranks_per_node != 0 ||
         manual.node_rank >= 0 || !manual.host.empty();
}

void use_nodes(Options& options) {
  ManualStart& manual = options.manual;
  const auto refuse = [](const std::string& why) { throw InvalidArgumentError(why); };
  if (options.np != 0 || !options.hosts.empty() || !options.launcher.empty()) {
    refuse(
        "-np, -H and --launcher are for one hvdrun that starts all ranks, --nnodes and "
        "--nproc-per-node for one on each machine; give one or the other");
  }
  manual.nodes = std::max(1, manual.nodes);
  options.np = manual.nodes * std::max(1, manual.ranks_per_node);
  if (manual.nodes == 1) return;
  const std::string all = str_cat("--nnodes ", manual.nodes, ": ");
  if (manual.standalone) refuse(all + "--standalone means one machine");
  if (manual.host.empty()) refuse(all + "needs --rdzv-endpoint HOST:PORT, where the ranks meet");
  if (manual.node_rank < 0 || manual.node_rank >= manual.nodes) {
    refuse(str_cat(all, "needs --node-rank, 0 to ", manual.nodes - 1));
  }
}

// Most ranks that one machine gets: mpirun fills the machines in order.
std::size_t most_ranks_together(const Options& options) {
  std::size_t most = options.hosts.empty() ? static_cast<std::size_t>(options.np) : 0;
  for (const std::vector<int>& ranks : place_ranks(options.np, options.hosts)) {
    most = std::max(most, ranks.size());
  }
  return most;
}

// Horovod's launcher takes one number where its engine wants a list; the list is checked here.
void check_affinity(const Options& options) {
  const auto chosen = options.settings.find("HOROVOD_THREAD_AFFINITY");
  if (chosen == options.settings.end()) return;
  const std::string& cores = chosen->second.value;
  const std::size_t count = split(cores, ',').size();
  const std::size_t needed = most_ranks_together(options);
  if (count >= needed) return;
  throw InvalidArgumentError("--thread-affinity ", cores, ": ", count, " cores, but a machine has ",
                             needed, " ranks; give a core for each, such as 0,1,2");
}

void check(const Options& options) {
  if (options.np == 0) {
    throw InvalidArgumentError("-np: missing; say how many ranks to start, such as hvdrun -np 2 ",
                               (options.command.empty() ? "./train" : join_words(options.command)));
  }
  if (options.command.empty()) {
    throw InvalidArgumentError("no program given; hvdrun -np ", options.np,
                               " needs one after its options, such as python train.py");
  }
  if (options.launcher == "none" && options.manual.key_file.empty()) {
    throw InvalidArgumentError(
        "--launcher none: needs --key-file FILE, a file that the agents of all machines can read");
  }
  if (options.command[0].empty()) throw InvalidArgumentError("the program's name is empty");
  if (!options.hosts.empty() && options.np > total_slots(options.hosts)) {
    throw InvalidArgumentError("-np ", options.np, ": more ranks than -H ",
                               to_string(options.hosts), " has slots (", total_slots(options.hosts),
                               ")");
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
  if (quote != 0) throw InvalidArgumentError(option, ": '", text, "': a quote is not closed");
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
    for (const Given& given : ConfigFile(options.config_file).read()) {
      const auto overrules = [&](const Given& other) {
        return other.row->subject() == given.row->subject();
      };
      if (std::none_of(line.given.begin(), line.given.end(), overrules)) apply(options, given);
    }
  }
  options.command = std::move(line.program);
  const bool only_tells = options.help || options.help_all || options.help_settings ||
                          options.version || options.check_build;
  if (only_tells) return options;
  has_nodes(options.manual) ? use_nodes(options) : use_scheduler(options, environment);
  check(options);
  return options;
}

}  // namespace hvd::runner
