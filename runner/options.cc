#include "runner/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "core/base/closest_name.h"
#include "core/base/config.h"
#include "core/base/status.h"
#include "runner/config_file.h"
#include "runner/option_table.h"
#include "runner/slurm.h"

namespace hvd::runner {
namespace {

constexpr int kMaxRanks = 1'000'000;
constexpr double kMaxMib = 1024.0 * 1024.0;

// One word of the command line or one line of the configuration file.
struct Given {
  const OptionRow* row = nullptr;
  std::string written;  // "-np", "job.yaml:3"
  std::string source;   // "hvdrun -np", "job.yaml:3"
  std::string value;
};

std::optional<int> parse_int(const std::string& text, int least, int most) {
  int value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  const bool good = error == std::errc() && end == last && value >= least && value <= most;
  return good ? std::optional(value) : std::nullopt;
}

int parse_np(const std::string& text) {
  if (const auto np = parse_int(text, 1, kMaxRanks)) return *np;
  throw InvalidArgumentError("-np: '" + text + "': expected a whole number of ranks, 1 to " +
                             std::to_string(kMaxRanks));
}

int parse_port(const Given& given) {
  if (const auto port = parse_int(given.value, 1, 65535)) return *port;
  throw InvalidArgumentError(given.written + ": '" + given.value +
                             "': expected a port, 1 to 65535");
}

std::string mib_to_bytes(const Given& given) {
  double mib = 0;
  const char* last = given.value.data() + given.value.size();
  const auto [end, error] = std::from_chars(given.value.data(), last, mib);
  if (error != std::errc() || end != last || !std::isfinite(mib) || mib < 0 || mib > kMaxMib) {
    throw InvalidArgumentError(given.written + ": '" + given.value +
                               "': expected MiB, a number from 0 (no fusion) to 1048576");
  }
  return std::to_string(static_cast<std::size_t>(mib * 1024 * 1024));
}

// Goes into one word of mpirun's that ssh's arguments are cut from at blanks.
std::string without_blanks(const Given& given) {
  if (given.value.find_first_of(" \t") == std::string::npos) return given.value;
  throw InvalidArgumentError(given.written + ": '" + given.value +
                             "': mpirun cannot pass names with blanks on");
}

void add_words(std::vector<std::string>& to, std::string_view text) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    if (!word.empty()) to.emplace_back(word);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
}

Given take_option(std::span<const std::string> arguments, std::size_t& i) {
  const std::string& argument = arguments[i];
  const std::size_t equals = argument.find('=');
  Given given;
  given.written = argument.substr(0, equals);
  given.row = find_option(given.written);
  if (given.row == nullptr) {
    if (const auto joined = split_joined_option(argument)) {  // -n2
      const auto& [row, word, value] = *joined;
      return {row, std::string(word), "hvdrun " + std::string(word), std::string(value)};
    }
  }
  given.source = "hvdrun " + given.written;
  if (given.row == nullptr) {
    throw InvalidArgumentError("unknown option " + given.written +
                               did_you_mean(given.written, option_words()) +
                               " (hvdrun --help lists them; hvdrun's options come before the "
                               "program, the program's own after it)");
  }
  if (!given.row->takes_value()) {
    if (equals == std::string::npos) return given;
    throw InvalidArgumentError(given.written + ": takes no value, got '" +
                               argument.substr(equals + 1) + "'");
  }
  if (equals != std::string::npos) {
    given.value = argument.substr(equals + 1);
  } else if (++i == arguments.size()) {
    throw InvalidArgumentError(given.written + ": needs a value (" + std::string(given.row->value) +
                               ")");
  } else {
    given.value = arguments[i];
    i += static_cast<std::size_t>(given.row->values - 1);
  }
  if (given.value.empty()) throw InvalidArgumentError(given.written + ": the value is empty");
  return given;
}

// What an option is about: two that are about the same contradict each other.
std::string_view subject(const OptionRow& row) {
  return row.setting.empty() ? row.name() : row.setting;
}

std::vector<Given> read_command_line(std::span<const std::string> arguments,
                                     std::vector<std::string>& program) {
  std::vector<Given> all;
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    if (arguments[i] == "--") {
      ++i;
      break;
    }
    if (arguments[i].size() < 2 || arguments[i][0] != '-') break;
    Given given = take_option(arguments, i);
    for (const Given& other : all) {
      if (given.row->repeatable || subject(*other.row) != subject(*given.row)) continue;
      throw InvalidArgumentError(given.written + ": " +
                                 (other.written == given.written ? "given twice"
                                                                 : "contradicts " + other.written +
                                                                       ", which comes before it"));
    }
    all.push_back(std::move(given));
  }
  i = std::min(i, arguments.size());
  program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return all;
}

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
  std::vector<Given> all;
  for (const ConfigEntry& entry : read_config_file(path)) {
    const std::string place = path + ":" + std::to_string(entry.line);
    const OptionRow* row = find_key(entry.key);
    if (row == nullptr) {
      throw InvalidArgumentError(place + ": unknown key " + entry.key +
                                 "; runner/README.md lists the keys");
    }
    if (!row->takes_value()) {
      const bool on = yaml_flag(entry, place);
      row = find_key(entry.key, on);
      if (!on && row->gives != "0" && find_key(entry.key, true) == row) continue;  // has no --no-
    }
    const bool overruled = std::any_of(stronger.begin(), stronger.end(), [&](const Given& other) {
      return subject(*other.row) == subject(*row);
    });
    if (!overruled) all.push_back({row, place + ": " + entry.key, place, entry.value});
  }
  return all;
}

void choose_setting(Options& options, const Given& given) {
  const OptionRow& row = *given.row;
  std::string value = given.value;
  if (!row.takes_value()) value = row.gives;
  if (row.in_mib) value = mib_to_bytes(given);
  check_setting(row.setting, value, given.written);
  options.settings[std::string(row.setting)] = {value, given.source};
}

using Apply = std::function<void(Options&, const Given&)>;

const std::map<std::string_view, Apply>& own_options() {
  static const std::map<std::string_view, Apply> table = {
      {"np", [](Options& o, const Given& g) { o.np = parse_np(g.value); }},
      {"hosts", [](Options& o, const Given& g) { o.hosts = parse_hosts(g.value); }},
      {"hostfile", [](Options& o, const Given& g) { o.hosts = read_hostfile(g.value); }},
      {"config-file", [](Options&, const Given&) {}},  // read before
      {"verbose", [](Options& o, const Given&) { o.verbose = true; }},
      {"output-filename", [](Options& o, const Given& g) { o.output_folder = g.value; }},
      {"prefix-output-with-timestamp", [](Options& o, const Given&) { o.timestamps = true; }},
      {"network-interfaces", [](Options& o, const Given& g) { add_words(o.interfaces, g.value); }},
      {"network-interface", [](Options& o, const Given& g) { add_words(o.interfaces, g.value); }},
      {"ssh-port", [](Options& o, const Given& g) { o.ssh_port = parse_port(g); }},
      {"ssh-identity-file", [](Options& o, const Given& g) { o.ssh_identity = without_blanks(g); }},
      {"mpi-args",
       [](Options& o, const Given& g) { o.mpi_args = split_words(g.value, g.written); }},
      {"binding-args",
       [](Options& o, const Given& g) { o.binding_args = split_words(g.value, g.written); }},
      {"check-build", [](Options& o, const Given&) { o.check_build = true; }},
      {"help-settings", [](Options& o, const Given&) { o.help_settings = true; }},
      {"version", [](Options& o, const Given&) { o.version = true; }},
      {"help", [](Options& o, const Given&) { o.help = true; }},
  };
  return table;
}

void apply(Options& options, const Given& given) {
  const OptionRow& row = *given.row;
  switch (row.effect) {
    case Effect::kOwn:
      return own_options().at(row.name())(options, given);
    case Effect::kSetting:
      return choose_setting(options, given);
    case Effect::kIgnored:
      if (row.text.empty()) return;
      options.warnings.push_back(given.written + " does nothing: " + std::string(row.text));
      return;
    case Effect::kRefused:
      throw InvalidArgumentError(given.written + ": " + std::string(row.text));
  }
}

const Given* find_given(const std::vector<Given>& all, std::string_view name) {
  for (const Given& given : all) {
    if (given.row->name() == name) return &given;
  }
  return nullptr;
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
  std::vector<Given> all = read_command_line(arguments, options.command);
  if (find_given(all, "hosts") != nullptr && find_given(all, "hostfile") != nullptr) {
    throw InvalidArgumentError("-H and --hostfile: both say which machines to use; give one");
  }
  if (const Given* file = find_given(all, "config-file")) {
    for (Given& given : read_file(file->value, all)) all.push_back(std::move(given));
  }
  for (const Given& given : all) apply(options, given);
  const bool only_tells =
      options.help || options.help_settings || options.version || options.check_build;
  if (only_tells) return options;
  use_slurm(options, environment);
  check(options);
  return options;
}

}  // namespace hvd::runner
