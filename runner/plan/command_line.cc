#include <map>
#include <sstream>
#include <utility>

#include <boost/program_options.hpp>

#include "core/base/status.h"
#include "core/config/unknown_variables.h"
#include "runner/plan/option_table.h"

namespace hvd::runner {
namespace {

namespace po = boost::program_options;

constexpr unsigned kWidth = 100;     // of the help text, in characters
constexpr unsigned kTextWidth = 54;  // of that, at least for what an option does

void add(po::options_description& to, const std::string& names, const std::string& value,
         const std::string& text) {
  if (value.empty()) {
    to.add_options()(names.c_str(), text.c_str());
  } else {
    to.add_options()(names.c_str(), po::value<std::string>()->value_name(value), text.c_str());
  }
}

// What Boost knows, and what it stands for by Boost's name of it.
struct Known {
  Known() {
    for (const OptionRow& row : option_table()) {
      for (const bool on : {true, false}) {
        const std::string names = row.called(on);
        if (names.empty()) continue;
        add(options, names, row.value, row.text);
        rows[options.options().back()->long_name()] = {&row, on, "", "", ""};
      }
    }
  }
  po::options_description options;
  std::map<std::string, Given> rows;
};

// Null if no option is written so: long names have one dash or two, letters one.
const po::option_description* find(const po::options_description& known, const std::string& word) {
  const bool two_dashes = word.starts_with("--");
  const std::string name = word.substr(two_dashes ? 2 : 1);
  if (name.empty()) return nullptr;
  const po::option_description* found = known.find_nothrow(name, false);
  return found == nullptr && !two_dashes ? known.find_nothrow(word, false) : found;
}

po::option take_option(const po::options_description& known, std::vector<std::string>& words) {
  const std::string word = words[0];
  words.erase(words.begin());
  std::size_t end = std::min(word.find('='), word.size());
  std::size_t value = end + 1;
  if (!word.starts_with("--") && find(known, word.substr(0, end)) == nullptr) {
    const std::size_t joined = word.starts_with("-H") ? 2 : word.find_last_not_of("0123456789") + 1;
    if (find(known, word.substr(0, joined)) != nullptr) end = value = joined;
  }
  po::option option;
  option.original_tokens = {word.substr(0, end)};
  const po::option_description* found = find(known, option.original_tokens[0]);
  option.string_key = found == nullptr ? word : found->long_name();
  if (end < word.size()) {
    option.value = {word.substr(value)};
  } else if (found != nullptr && found->semantic()->min_tokens() > 0 && !words.empty()) {
    option.value = {words[0]};  // also one that is written as an option: --mpi-args -v
    words.erase(words.begin());
  }
  return option;
}

// Horovod's grammar, where Boost's is another; Boost alone would also look for options in the
// program's arguments.
std::vector<po::option> read_words(const po::options_description& known,
                                   std::vector<std::string>& words) {
  std::vector<po::option> options;
  if (words[0] == "--") return options;  // after which Boost takes all as it is
  if (words[0].size() > 1 && words[0][0] == '-') return {take_option(known, words)};
  for (const std::string& word : words) options.emplace_back("", std::vector{word});
  words.clear();
  return options;
}

std::vector<po::option> parse(const po::options_description& known,
                              std::span<const std::string> arguments) {
  using namespace po::command_line_style;
  try {
    return po::command_line_parser(std::vector<std::string>(arguments.begin(), arguments.end()))
        .options(known)
        .style(allow_long | long_allow_next)
        .extra_style_parser(
            [&](std::vector<std::string>& words) { return read_words(known, words); })
        .allow_unregistered()
        .run()
        .options;
  } catch (const po::error& error) {
    throw InvalidArgumentError(error.what());
  }
}

[[noreturn]] void refuse_unknown(const Known& known, const std::string& written) {
  std::vector<std::string> names;
  for (const auto& option : known.options.options()) names.push_back("--" + option->long_name());
  throw InvalidArgumentError("unknown option ", written, did_you_mean(written, names),
                             " (hvdrun --help-all lists them; hvdrun's options come before the "
                             "program, the program's own after it)");
}

void refuse_contradiction(const std::vector<Given>& before, const Given& given) {
  if (given.row->value == "A,B") return;  // lists add up
  for (const Given& other : before) {
    if (other.row->subject() != given.row->subject()) continue;
    throw InvalidArgumentError(
        given.written, ": ",
        other.written == given.written
            ? "given twice"
            : str_cat("contradicts ", other.written, ", which comes before it"));
  }
}

constexpr const char* kNotes = R"(
Examples:
  hvdrun -np 2 python train.py --epochs 3       two ranks on this machine
  hvdrun -np 8 -H node1:4,node2:4 ./train       two machines: ssh without a password, and
                                                hvdrun and the program at the same paths
  hvdrun -np 2 -- -odd-program-name             -- ends hvdrun's options

Slurm (PBS, LSF and Grid Engine alike):
  salloc -N 2 -n 8; hvdrun python train.py      takes machines and ranks from the job,
                                                also in a script for sbatch
  srun -N 2 -n 8 --mpi=pmix python train.py     without hvdrun; srun --mpi=list shows
                                                whether this Slurm has PMIx

Lines of rank 1 arrive as '[1] text', standard error stays standard error, and rank 0 gets standard
input. HOROVOD_* and HVD_* variables reach every rank on every machine. The exit code is the first
failing rank's, 128 plus the number for a signal, 2 for a command line that hvdrun does not
understand. Ctrl-C reaches all ranks; what has not ended 5 seconds later is killed. When a rank
fails, the others have 3 seconds to notice and end by themselves.
)";

}  // namespace

CommandLine read_command_line(std::span<const std::string> arguments) {
  CommandLine line;
  const Known known;
  for (const po::option& option : parse(known.options, arguments)) {
    if (option.string_key.empty()) {
      line.program.push_back(option.value[0]);
      continue;
    }
    const std::string& written = option.original_tokens[0];
    if (option.unregistered) refuse_unknown(known, written);
    Given given = known.rows.at(option.string_key);
    given.written = written;
    given.source = "hvdrun " + written;
    if (!option.value.empty()) given.value = option.value[0];
    if (given.value.empty() && !given.row->value.empty()) {
      throw InvalidArgumentError(written + ": the value is empty");
    }
    refuse_contradiction(line.given, given);
    line.given.push_back(std::move(given));
  }
  return line;
}

std::string help_text(bool all) {
  po::options_description text("", kWidth, kTextWidth);
  const std::vector<OptionRow>& table = option_table();
  for (auto row = table.begin(); row != table.end();) {
    const OptionGroup& group = row->group;
    po::options_description section(group.title, kWidth, kTextWidth);
    for (; row != table.end() && &row->group == &group; ++row) {
      const auto* variable = std::get_if<const char*>(&row->target);
      add(section, row->names, row->value,
          (all && variable != nullptr ? std::string(*variable) + ": " : "") + row->text);
    }
    if (group.common || all) text.add(section);
  }
  std::ostringstream out;
  out << "hvdrun -np N [options] program [arguments of the program]\n\n"
         "Starts a program as N cooperating ranks, on this machine or on several; ends with the "
         "first\n"
         "failing rank's number, exit code and last lines.\n"
      << text << (all ? kNotes : "\nExample: hvdrun -np 2 python train.py --epochs 3\n");
  return out.str();
}

}  // namespace hvd::runner
