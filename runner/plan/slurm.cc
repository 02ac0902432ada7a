#include "runner/plan/slurm.h"

#include <charconv>

#include "core/base/status.h"
#include "runner/plan/hosts.h"

namespace hvd::runner {
namespace {

constexpr std::size_t kMostNodes = 100'000;
constexpr std::size_t kMostDigits = 9;

[[noreturn]] void bad(const char* variable, std::string_view text, const std::string& why) {
  throw InvalidArgumentError(std::string(variable) + "='" + std::string(text) + "': " + why);
}

[[noreturn]] void bad_nodes(std::string_view text, const std::string& why) {
  bad("SLURM_JOB_NODELIST", text, why + "; expected nodes such as n[01-03,07],m1");
}

[[noreturn]] void bad_counts(std::string_view text) {
  bad("SLURM_TASKS_PER_NODE", text, "expected counts such as 2(x3),1");
}

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  const bool whole = error == std::errc() && end == last && !text.empty() && text[0] != '-';
  return whole ? std::optional(value) : std::nullopt;
}

// "01-03" -> 01 02 03: numbers keep the width of the first.
void add_range(std::string_view range, std::string_view all, std::vector<std::string>& out) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const auto low = parse_int(first);
  const auto high = parse_int(last);
  if (!low || !high || *low > *high || first.size() > kMostDigits || last.size() > kMostDigits) {
    bad_nodes(all, "'" + std::string(range) + "' is not a range of numbers");
  }
  if (static_cast<std::size_t>(*high - *low) >= kMostNodes) bad_nodes(all, "too many nodes");
  for (int i = *low; i <= *high; ++i) {
    std::string number = std::to_string(i);
    if (number.size() < first.size()) number.insert(0, first.size() - number.size(), '0');
    out.push_back(std::move(number));
  }
}

std::vector<std::string> expand_ranges(std::string_view ranges, std::string_view all) {
  std::vector<std::string> numbers;
  while (true) {
    const std::size_t comma = ranges.find(',');
    add_range(ranges.substr(0, comma), all, numbers);
    if (comma == std::string_view::npos) return numbers;
    ranges.remove_prefix(comma + 1);
  }
}

// One name with any number of brackets: "r[1-2]n[1-2]".
std::vector<std::string> expand_name(std::string_view name, std::string_view all) {
  std::vector<std::string> done = {""};
  while (!name.empty()) {
    const std::size_t open = name.find('[');
    const std::string_view plain = name.substr(0, open);
    std::vector<std::string> parts = {""};
    name.remove_prefix(plain.size());
    if (!name.empty()) {
      const std::size_t close = name.find(']');
      if (close == std::string_view::npos) bad_nodes(all, "a bracket is not closed");
      parts = expand_ranges(name.substr(1, close - 1), all);
      name.remove_prefix(close + 1);
    }
    std::vector<std::string> longer;
    if (done.size() * parts.size() > kMostNodes) bad_nodes(all, "too many nodes");
    for (const std::string& head : done) {
      for (const std::string& part : parts) longer.push_back(head + std::string(plain) + part);
    }
    done = std::move(longer);
  }
  return done;
}

// Up to the first comma that is outside of brackets.
std::string_view first_name(std::string_view text) {
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] == ',' && !inside) return text.substr(0, i);
  }
  return text;
}

const std::string* find(const Environment& environment, const char* name) {
  const auto it = environment.find(name);
  return it == environment.end() ? nullptr : &it->second;
}

}  // namespace

std::vector<std::string> expand_nodes(std::string_view text) {
  std::vector<std::string> nodes;
  std::string_view rest = text;
  while (true) {
    const std::string_view name = first_name(rest);
    if (name.empty()) bad_nodes(text, "a node has no name");
    for (std::string& node : expand_name(name, text)) {
      const std::string problem = host_name_problem(node);
      if (!problem.empty()) bad_nodes(text, "'" + node + "': " + problem);
      nodes.push_back(std::move(node));
    }
    if (nodes.size() > kMostNodes) bad_nodes(text, "too many nodes");
    if (name.size() == rest.size()) return nodes;
    rest.remove_prefix(name.size() + 1);
  }
}

std::vector<int> expand_counts(std::string_view text) {
  std::vector<int> counts;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t times_at = part.find("(x");
    const auto count = parse_int(part.substr(0, times_at));
    std::optional<int> times = 1;
    if (times_at != std::string_view::npos) {
      if (part.back() != ')') bad_counts(text);
      times = parse_int(part.substr(times_at + 2, part.size() - times_at - 3));
    }
    if (!count || *count < 1 || !times || *times < 1) bad_counts(text);
    const auto total = counts.size() + static_cast<std::size_t>(*times);
    if (total > kMostNodes) bad_counts(text);
    counts.resize(total, *count);
    if (comma == std::string_view::npos) return counts;
    rest.remove_prefix(comma + 1);
  }
}

std::optional<SlurmJob> slurm_job(const Environment& environment) {
  const std::string* nodes = find(environment, "SLURM_JOB_NODELIST");
  const std::string* counts = find(environment, "SLURM_TASKS_PER_NODE");
  if (nodes == nullptr || counts == nullptr) return std::nullopt;
  const std::vector<std::string> names = expand_nodes(*nodes);
  const std::vector<int> slots = expand_counts(*counts);
  if (names.size() != slots.size()) {
    bad("SLURM_TASKS_PER_NODE", *counts,
        "has counts for " + std::to_string(slots.size()) + " nodes, but SLURM_JOB_NODELIST='" +
            *nodes + "' names " + std::to_string(names.size()));
  }
  SlurmJob job;
  for (std::size_t i = 0; i < names.size(); ++i) job.hosts.push_back({names[i], slots[i]});
  if (const std::string* tasks = find(environment, "SLURM_NTASKS")) {
    job.tasks = parse_int(*tasks);
    if (!job.tasks || *job.tasks < 1) bad("SLURM_NTASKS", *tasks, "expected a number of tasks");
  }
  return job;
}

}  // namespace hvd::runner
