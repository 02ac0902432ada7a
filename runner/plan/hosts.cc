#include "runner/plan/hosts.h"

#include <netdb.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"

namespace hvd::runner {
namespace {

[[noreturn]] void bad_hosts(std::string_view part, const std::string& why) {
  throw InvalidArgumentError("-H: '", part, "': ", why,
                             "; expected host:slots,host:slots, such as -H node1:4,node2:4");
}

std::string slots_problem(std::string_view number, int& slots) {
  const auto value = parse_number<int>(number);
  if (!value) return "slots is not a whole number";
  slots = *value;
  return slots < 1 || slots > 1'000'000 ? "slots must be 1 to 1000000" : "";
}

constexpr const char* kTwice = "this host is given twice";

bool has_host(std::span<const HostSlots> hosts, const std::string& name) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const HostSlots& each) { return each.host == name; });
}

// Reads "node1:4" or "node1".
std::string host_problem(std::string_view text, HostSlots& host) {
  const std::size_t colon = text.find(':');
  host = {std::string(text.substr(0, colon)), 1};
  const std::string problem = host_name_problem(host.host);
  if (!problem.empty() || colon == std::string_view::npos) return problem;
  return slots_problem(text.substr(colon + 1), host.slots);
}

// One line of a hostfile without its comment; nothing when it is empty.
std::optional<HostSlots> parse_line(const std::string& line, const std::string& place) {
  const auto refuse = [&](const std::string& word, const std::string& problem) {
    throw InvalidArgumentError(place, ": '", word, "': ", problem,
                               "expected lines such as 'node1 slots=4' or 'node1:4'");
  };
  std::istringstream words(line.substr(0, line.find('#')));
  std::string word;
  if (!(words >> word)) return std::nullopt;
  HostSlots host;
  bool has_slots = word.find(':') != std::string::npos;
  if (const std::string problem = host_problem(word, host); !problem.empty()) {
    refuse(word, problem + "; ");
  }
  while (words >> word) {
    if (!word.starts_with("slots=")) refuse(word, "");
    if (std::exchange(has_slots, true)) refuse(word, "slots are given twice; ");
    const std::string problem = slots_problem(word.substr(6), host.slots);
    if (!problem.empty()) refuse(word, problem + "; ");
  }
  return host;
}

// "node7.cluster" -> "node7"
std::string_view short_name(std::string_view host) {
  return host.substr(0, host.find('.'));
}

// -- What Slurm says

constexpr std::size_t kMostNodes = 100'000;
constexpr std::size_t kMostDigits = 9;

[[noreturn]] void bad(const char* variable, std::string_view text, const std::string& why) {
  throw InvalidArgumentError(variable, "='", text, "': ", why);
}

[[noreturn]] void bad_nodes(std::string_view text, const std::string& why) {
  bad("SLURM_JOB_NODELIST", text, why + "; expected nodes such as n[01-03,07],m1");
}

[[noreturn]] void bad_counts(std::string_view text) {
  bad("SLURM_TASKS_PER_NODE", text, "expected counts such as 2(x3),1");
}

std::optional<int> parse_count(std::string_view text) {
  const auto value = parse_number<int>(text);
  return value && text[0] != '-' ? value : std::nullopt;
}

// "01-03" -> 01 02 03: numbers keep the width of the first.
void add_range(std::string_view range, std::string_view all, std::vector<std::string>& out) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const auto low = parse_count(first);
  const auto high = parse_count(last);
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
  for (const std::string_view range : split(ranges, ',')) add_range(range, all, numbers);
  return numbers;
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

// Up to the first comma that is outside brackets.
std::string_view first_name(std::string_view text) {
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] == ',' && !inside) return text.substr(0, i);
  }
  return text;
}

}  // namespace

std::optional<std::string> value_of(const Environment& environment, const char* name) {
  const auto it = environment.find(name);
  return it == environment.end() ? std::nullopt : std::optional(it->second);
}

std::string host_name_problem(std::string_view host) {
  if (host.empty()) return "the host has no name";
  if (host.find_first_of(" \t") != std::string::npos) return "a host name has no blanks";
  // ssh would take it for an option of its own, and some of those run commands.
  return host.starts_with('-') ? "a host name does not begin with '-'" : "";
}

std::vector<HostSlots> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (const std::string_view part : split(text, ',')) {
    HostSlots host;
    if (const std::string why = host_problem(part, host); !why.empty()) bad_hosts(part, why);
    if (has_host(hosts, host.host)) bad_hosts(host.host, kTwice);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    throw InvalidArgumentError("--hostfile: '", path, "' cannot be read, or is empty");
  }
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string place = str_cat(path, ":", ++number);
    const auto host = parse_line(line, place);
    if (!host) continue;
    if (has_host(hosts, host->host)) {
      throw InvalidArgumentError(place, ": '", host->host, "': ", kTwice);
    }
    hosts.push_back(*host);
  }
  if (hosts.empty()) throw InvalidArgumentError("--hostfile: '" + path + "' names no host");
  return hosts;
}

std::string to_string(std::span<const HostSlots> hosts) {
  std::string text;
  for (const HostSlots& host : hosts) {
    if (!text.empty()) text += ',';
    text += host.host + ':' + std::to_string(host.slots);
  }
  return text;
}

int total_slots(std::span<const HostSlots> hosts) {
  std::int64_t total = 0;
  for (const HostSlots& host : hosts) total += host.slots;
  return static_cast<int>(std::min<std::int64_t>(total, 1'000'000'000));
}

bool is_local_host(std::string_view host, std::string_view hostname) {
  if (host == "localhost" || host.starts_with("127.")) return true;
  // A full name must match in full; a short one matches the short form of ours.
  return host == hostname || host == short_name(hostname);
}

std::string hosts_without_address(std::span<const HostSlots> hosts) {
  std::string names;
  for (const HostSlots& host : hosts) {
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host.host.c_str(), nullptr, nullptr, &found);
    if (error == 0) {
      freeaddrinfo(found);
    } else {
      names += (names.empty() ? "" : ", ") + host.host + " (" + gai_strerror(error) + ")";
    }
  }
  return names;
}

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
  for (const std::string_view part : split(text, ',')) {
    const std::size_t times_at = part.find("(x");
    const auto count = parse_count(part.substr(0, times_at));
    std::optional<int> times = 1;
    if (times_at != std::string_view::npos) {
      if (part.back() != ')') bad_counts(text);
      times = parse_count(part.substr(times_at + 2, part.size() - times_at - 3));
    }
    if (!count || *count < 1 || !times || *times < 1) bad_counts(text);
    const auto total = counts.size() + static_cast<std::size_t>(*times);
    if (total > kMostNodes) bad_counts(text);
    counts.resize(total, *count);
  }
  return counts;
}

namespace {

std::optional<ScheduledJob> slurm_job(const Environment& environment) {
  const auto nodes = value_of(environment, "SLURM_JOB_NODELIST");
  const auto counts = value_of(environment, "SLURM_TASKS_PER_NODE");
  if (!nodes || !counts) return std::nullopt;
  const std::vector<std::string> names = expand_nodes(*nodes);
  const std::vector<int> slots = expand_counts(*counts);
  if (names.size() != slots.size()) {
    bad("SLURM_TASKS_PER_NODE", *counts,
        str_cat("has counts for ", slots.size(), " nodes, but SLURM_JOB_NODELIST='", *nodes,
                "' names ", names.size()));
  }
  ScheduledJob job{"Slurm", "slurm", {}, {}};
  for (std::size_t i = 0; i < names.size(); ++i) job.hosts.push_back({names[i], slots[i]});
  if (const auto tasks = value_of(environment, "SLURM_NTASKS")) {
    job.tasks = parse_count(*tasks);
    if (!job.tasks || *job.tasks < 1) bad("SLURM_NTASKS", *tasks, "expected a number of tasks");
  }
  return job;
}

// Files in which other schedulers say what they granted.
struct HostFile {
  const char* variable;
  const char* scheduler;
  const char* launcher;
};
constexpr std::array<HostFile, 3> kHostFiles = {
    {{"PBS_NODEFILE", "PBS", "ssh"},
     {"LSB_DJOB_HOSTFILE", "LSF", "exec:blaunch"},
     {"PE_HOSTFILE", "Grid Engine", "exec:qrsh -inherit"}}};

// A line is a host and its slots ("node1 4 queue ..."), or a host without a number for each slot.
std::vector<HostSlots> read_granted(const char* variable, const std::string& path) {
  std::vector<HostSlots> hosts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, number = "1";
    if (!(words >> name)) continue;
    words >> number;
    int slots = 0;
    std::string problem = host_name_problem(name);
    if (problem.empty()) problem = slots_problem(number, slots);
    if (!problem.empty()) bad(variable, path, "'" + line + "': " + problem);
    const auto host = std::find_if(hosts.begin(), hosts.end(),
                                   [&](const HostSlots& each) { return each.host == name; });
    if (host == hosts.end()) {
      hosts.push_back({name, slots});
    } else {
      host->slots += slots;
    }
  }
  if (hosts.empty()) bad(variable, path, "cannot be read, or names no host");
  return hosts;
}

}  // namespace

std::optional<ScheduledJob> scheduled_job(const Environment& environment) {
  if (const auto job = slurm_job(environment)) return job;
  for (const HostFile& each : kHostFiles) {
    const auto path = value_of(environment, each.variable);
    if (!path) continue;
    ScheduledJob job{each.scheduler, each.launcher, read_granted(each.variable, *path), {}};
    job.tasks = total_slots(job.hosts);
    return job;
  }
  return std::nullopt;
}

}  // namespace hvd::runner
