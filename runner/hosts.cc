#include "runner/hosts.h"

#include <algorithm>
#include <charconv>

#include "core/base/status.h"

namespace hvd::runner {
namespace {

[[noreturn]] void bad_hosts(std::string_view part, const std::string& why) {
  throw InvalidArgumentError("-H: '" + std::string(part) + "': " + why +
                             "; expected host:slots,host:slots, such as -H node1:4,node2:4");
}

HostSlots parse_host(std::string_view part) {
  const std::size_t colon = part.find(':');
  HostSlots host{std::string(part.substr(0, colon)), 1};
  if (host.host.empty()) bad_hosts(part, "the host has no name");
  if (host.host.find_first_of(" \t") != std::string::npos) {
    bad_hosts(part, "a host name has no blanks");
  }
  if (colon == std::string_view::npos) return host;
  const std::string_view number = part.substr(colon + 1);
  const char* last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, host.slots);
  if (error != std::errc() || end != last) bad_hosts(part, "slots is not a whole number");
  if (host.slots < 1 || host.slots > 1'000'000) bad_hosts(part, "slots must be 1 to 1000000");
  return host;
}

// "node7.cluster" -> "node7"
std::string_view short_name(std::string_view host) {
  return host.substr(0, host.find('.'));
}

}  // namespace

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

}  // namespace hvd::runner
