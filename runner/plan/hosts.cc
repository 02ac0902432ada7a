#include "runner/plan/hosts.h"

#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "core/base/status.h"

namespace hvd::runner {
namespace {

[[noreturn]] void bad_hosts(std::string_view part, const std::string& why) {
  throw InvalidArgumentError("-H: '" + std::string(part) + "': " + why +
                             "; expected host:slots,host:slots, such as -H node1:4,node2:4");
}

std::string slots_problem(std::string_view number, int& slots) {
  const char* last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, slots);
  if (error != std::errc() || end != last) return "slots is not a whole number";
  return slots < 1 || slots > 1'000'000 ? "slots must be 1 to 1000000" : "";
}

// Reads "node1:4" or "node1".
std::string host_problem(std::string_view text, HostSlots& host) {
  const std::size_t colon = text.find(':');
  host = {std::string(text.substr(0, colon)), 1};
  const std::string problem = host_name_problem(host.host);
  if (!problem.empty() || colon == std::string_view::npos) return problem;
  return slots_problem(text.substr(colon + 1), host.slots);
}

HostSlots parse_host(std::string_view part) {
  HostSlots host;
  if (const std::string problem = host_problem(part, host); !problem.empty()) {
    bad_hosts(part, problem);
  }
  return host;
}

// One line of a hostfile without its comment; nothing when it is empty.
std::optional<HostSlots> parse_line(const std::string& line, const std::string& place) {
  const auto refuse = [&](const std::string& word, const std::string& problem) {
    throw InvalidArgumentError(place + ": '" + word + "': " + problem +
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

}  // namespace

std::string host_name_problem(std::string_view host) {
  if (host.empty()) return "the host has no name";
  if (host.find_first_of(" \t") != std::string::npos) return "a host name has no blanks";
  // ssh would take it for an option of its own, and some of those run commands.
  return host.starts_with('-') ? "a host name does not begin with '-'" : "";
}

std::vector<HostSlots> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  while (true) {
    const std::size_t comma = text.find(',');
    HostSlots host = parse_host(text.substr(0, comma));
    for (const HostSlots& other : hosts) {
      if (other.host == host.host) bad_hosts(host.host, "this host is given twice");
    }
    hosts.push_back(std::move(host));
    if (comma == std::string_view::npos) return hosts;
    text.remove_prefix(comma + 1);
  }
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    throw InvalidArgumentError("--hostfile: '" + path + "' cannot be read, or is empty");
  }
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string place = path + ":" + std::to_string(++number);
    const auto host = parse_line(line, place);
    if (!host) continue;
    for (const HostSlots& other : hosts) {
      if (other.host == host->host) {
        throw InvalidArgumentError(place + ": '" + host->host + "': this host is given twice");
      }
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

}  // namespace hvd::runner
