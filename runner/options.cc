#include "runner/options.h"

#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>

#include "core/base/status.h"

namespace po = boost::program_options;

namespace hvd::runner {
namespace {

constexpr int kMaxRanks = 1'000'000;
constexpr double kMaxFusionMb = 1024.0 * 1024.0;

po::options_description describe() {
  po::options_description table("Options", 100);
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  table.add_options()                                                               //
      ("np", text("N"), "number of ranks (processes) to start; -np N is the same")  //
      ("hosts,H", text("HOST:SLOTS,..."),
       "machines to use and how many ranks each may hold; default: this machine")  //
      ("timeline-filename", text("FILE"),
       "write a trace of the collectives that Perfetto opens (HOROVOD_TIMELINE)")  //
      ("fusion-threshold-mb", text("MIB"),
       "fuse tensors up to this many MiB in one transfer; 0 turns fusion off "
       "(HOROVOD_FUSION_THRESHOLD)")                                                 //
      ("verbose", "print the mpirun command, its environment and its own messages")  //
      ("check-build", "print which backends this build has and can use here")        //
      ("version", "print the version")                                               //
      ("help,h", "print this text");
  return table;
}

// One option word as the user wrote it.
struct Word {
  std::string written;  // "-np"
  std::string name;     // "np"
  std::optional<std::string> value;
};

Word split_word(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  Word word;
  word.written = argument.substr(0, equals);
  word.name = word.written.substr(word.written.starts_with("--") ? 2 : 1);
  if (equals != std::string::npos) word.value = argument.substr(equals + 1);
  return word;
}

const po::option_description& find_option(const po::options_description& table, const Word& word) {
  for (const auto& option : table.options()) {
    if (option->long_name() == word.name) return *option;
    const bool one_dash = !word.written.starts_with("--");
    if (one_dash && option->canonical_display_name(po::command_line_style::allow_dash_for_short) ==
                        "-" + word.name) {
      return *option;
    }
  }
  throw InvalidArgumentError("unknown option " + word.written +
                             "; hvdrun's options come before the program, the program's own after "
                             "it (hvdrun --help lists them)");
}

// hvdrun's part of the command line as "--name" or "--name=value" words, and the program's part.
struct Split {
  std::vector<std::string> ours;
  std::vector<std::string> program;
};

Split split_at_program(const po::options_description& table,
                       std::span<const std::string> arguments) {
  Split split;
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      ++i;
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') break;
    Word word = split_word(argument);
    const po::option_description& option = find_option(table, word);
    const bool takes_value = option.semantic()->max_tokens() > 0;
    if (!takes_value && word.value) {
      throw InvalidArgumentError(word.written + ": takes no value, got '" + *word.value + "'");
    }
    if (takes_value && !word.value) {
      if (++i == arguments.size()) {
        throw InvalidArgumentError(word.written + ": needs a value (" + option.format_parameter() +
                                   ")");
      }
      word.value = arguments[i];
    }
    if (takes_value && word.value->empty()) {
      throw InvalidArgumentError(word.written + ": the value is empty");
    }
    split.ours.push_back("--" + option.long_name() + (takes_value ? "=" + *word.value : ""));
  }
  split.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return split;
}

int parse_np(const std::string& text) {
  int np = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, np);
  if (error != std::errc() || end != last || np < 1 || np > kMaxRanks) {
    throw InvalidArgumentError("-np: '" + text + "': expected a whole number of ranks, 1 to " +
                               std::to_string(kMaxRanks));
  }
  return np;
}

std::size_t parse_fusion(const std::string& text) {
  double mb = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, mb);
  if (error != std::errc() || end != last || !std::isfinite(mb) || mb < 0 || mb > kMaxFusionMb) {
    throw InvalidArgumentError("--fusion-threshold-mb: '" + text +
                               "': expected MiB, a number from 0 (no fusion) to 1048576");
  }
  return static_cast<std::size_t>(mb * 1024 * 1024);
}

void check(const Options& options) {
  if (options.np == 0) {
    throw InvalidArgumentError("-np: missing; say how many ranks to start, such as hvdrun -np 2 " +
                               (options.command.empty() ? "./train" : options.command[0]));
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
}

}  // namespace

Options parse_options(std::span<const std::string> arguments) {
  const po::options_description table = describe();
  Split split = split_at_program(table, arguments);
  po::variables_map values;
  try {
    // Words are canonical by now: whole names, values attached.
    const int style =
        po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent;
    po::store(po::command_line_parser(split.ours).options(table).style(style).run(), values);
  } catch (const po::error& error) {
    throw InvalidArgumentError(error.what());
  }
  Options options;
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  if (values.count("np") != 0) options.np = parse_np(text("np"));
  if (values.count("hosts") != 0) options.hosts = parse_hosts(text("hosts"));
  if (values.count("timeline-filename") != 0) options.timeline_filename = text("timeline-filename");
  if (values.count("fusion-threshold-mb") != 0) {
    options.fusion_threshold = parse_fusion(text("fusion-threshold-mb"));
  }
  options.verbose = values.count("verbose") != 0;
  options.help = values.count("help") != 0;
  options.version = values.count("version") != 0;
  options.check_build = values.count("check-build") != 0;
  options.command = std::move(split.program);
  if (!options.help && !options.version && !options.check_build) check(options);
  return options;
}

std::string help_text() {
  std::ostringstream text;
  text << "hvdrun starts a program as N cooperating ranks (through Open MPI's mpirun) and ends\n"
          "with the first failing rank's number, exit code and last lines.\n\n"
          "  hvdrun -np N [options] program [arguments of the program]\n\n"
       << describe()
       << "\nExamples\n"
          "  hvdrun -np 2 python train.py --epochs 3       two ranks on this machine\n"
          "  hvdrun -np 4 ./train_digits                   more ranks than cores is fine\n"
          "  hvdrun -np 8 -H node1:4,node2:4 ./train       two machines: ssh without a password, "
          "and\n"
          "                                                hvdrun and the program at the same "
          "paths\n"
          "  hvdrun -np 2 --timeline-filename t.json ./train\n"
          "  hvdrun -np 2 -- -odd-program-name             -- ends hvdrun's options\n\n"
          "Lines of rank 1 arrive as '[1] text', standard error stays standard error, and rank 0\n"
          "gets standard input. HOROVOD_* and HVD_* variables reach every rank on every machine.\n"
          "The exit code is the first failing rank's, 128 plus the number for a signal, 2 for a\n"
          "command line that hvdrun does not understand. Ctrl-C reaches all ranks; what has not\n"
          "ended 5 seconds later is killed.\n";
  return text.str();
}

}  // namespace hvd::runner
