#include "core/config/setting_kinds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/text.h"

namespace hvd::kinds {
namespace {

std::string write_whole(const std::size_t& value) {
  return std::to_string(value);
}

std::string write_real(const double& value) {
  return shortest_text(value);
}

std::string write_seconds(const Duration& value) {
  return shortest_text(to_seconds(value));
}

std::string write_text(const std::string& value) {
  return value;
}

template <typename Number>
std::optional<Number> read_between(std::string_view text, Number least,
                                   Number most = std::numeric_limits<Number>::max()) {
  const auto value = parse_number<Number>(text);
  const bool fits = value && std::isfinite(static_cast<double>(*value));
  return fits && *value >= least && *value <= most ? value : std::nullopt;
}

// `unit` is what the number counts.
std::optional<Duration> read_duration(std::string_view text, Duration unit, double least,
                                      double most) {
  const auto value = read_between<double>(text, least, most);
  if (!value) return std::nullopt;
  return std::chrono::round<Duration>(unit * *value);  // what is written is read as the same
}

std::optional<std::string> one_of(std::string_view text, const auto*... known) {
  return ((text == known) || ...) ? std::optional(std::string(text)) : std::nullopt;
}

std::optional<bool> read_flag(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (one_of(lower, "1", "true", "yes", "on")) return true;
  if (one_of(lower, "0", "false", "no", "off", "")) return false;
  return std::nullopt;
}

std::optional<std::vector<int>> read_cores(std::string_view text) {
  std::vector<int> cores;
  if (text.empty()) return cores;
  for (const std::string_view part : split(text, ',')) {
    const auto core = read_between<int>(part, 0);
    if (!core) return std::nullopt;
    cores.push_back(*core);
  }
  return cores;
}

std::string write_cores(const std::vector<int>& value) {
  std::string text;
  for (const int core : value) text += (text.empty() ? "" : ",") + std::to_string(core);
  return text;
}

std::optional<PortRange> read_ports(std::string_view text) {
  if (text.empty()) return PortRange();
  const auto parts = split(text, '-');
  const auto first = read_between<std::uint16_t>(parts.front(), 1);
  const auto last = read_between<std::uint16_t>(parts.back(), 1);
  if (parts.size() > 2 || !first || !last || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

std::string write_ports(const PortRange& ports) {
  if (ports == PortRange()) return "";
  return std::to_string(ports.first) + "-" + std::to_string(ports.last);
}

constexpr Duration kMillisecond = std::chrono::milliseconds(1);
constexpr Duration kSecond = std::chrono::seconds(1);

}  // namespace

// constinit: the table of settings is made from them before main().
using Text = std::string_view;

constinit const SettingKind<std::size_t> kWholeNumber = {
    "a whole number of at least 0", [](Text text) { return read_between<std::size_t>(text, 0); },
    &write_whole};
constinit const SettingKind<std::size_t> kPositiveNumber = {
    "a whole number of at least 1", [](Text text) { return read_between<std::size_t>(text, 1); },
    &write_whole};
// Counts of what is kept in memory.
constinit const SettingKind<std::size_t> kOperations = {
    "a whole number from 0 to 1000000",
    [](Text text) { return read_between<std::size_t>(text, 0, 1'000'000); }, &write_whole};
constinit const SettingKind<bool> kFlag = {
    "0, 1, true, false, yes, no, on or off", &read_flag,
    [](const bool& value) { return std::string(value ? "1" : "0"); }};
constinit const SettingKind<double> kFraction = {
    "a number from 0 to 1", [](Text text) { return read_between<double>(text, 0, 1); },
    &write_real};
constinit const SettingKind<Duration> kMilliseconds = {
    "milliseconds, a number from 0 to 1e4",
    [](Text text) { return read_duration(text, kMillisecond, 0, 1e4); },  // more: like a hang
    [](const Duration& value) {
      return shortest_text(std::chrono::duration<double, std::milli>(value).count());
    }};
constinit const SettingKind<Duration> kSeconds = {
    "seconds, a number from 0 to 1e9",
    [](Text text) { return read_duration(text, kSecond, 0, 1e9); }, &write_seconds};
constinit const SettingKind<Duration> kSecondsAboveZero = {
    "seconds, more than 0 and at most 1e9",
    [](Text text) {
      const auto value = kSeconds.read(text);
      return value && *value > Duration::zero() ? value : std::nullopt;
    },
    &write_seconds};
// For limits that must exist.
constinit const SettingKind<Duration> kPositiveSeconds = {
    "seconds, a number from 1 to 1e6",
    [](Text text) { return read_duration(text, kSecond, 1, 1e6); }, &write_seconds};
constinit const SettingKind<std::string> kText = {
    "text", [](Text text) { return std::optional(std::string(text)); }, &write_text};
// DYNAMIC is Horovod's name for "no file yet": start_timeline() always works here.
constinit const SettingKind<std::string> kTimelinePath = {
    "a file name, or DYNAMIC",
    [](Text text) { return std::optional(std::string(text == "DYNAMIC" ? "" : text)); },
    &write_text};
constinit const SettingKind<PortRange> kPorts = {
    "two ports such as 20000-20100, the lower one first", &read_ports, &write_ports};
// What to do about what is probably a mistake.
constinit const SettingKind<std::string> kCheck = {
    "0 (nothing), warn or error", [](Text text) { return one_of(text, "0", "warn", "error"); },
    &write_text};
constinit const SettingKind<std::string> kControlTransport = {
    "tcp or mpi", [](Text text) { return one_of(text, "tcp", "mpi"); }, &write_text};
// What init() joins.
constinit const SettingKind<std::string> kWorldChoice = {
    "job or self", [](Text text) { return one_of(text, "job", "self"); }, &write_text};
// gloo is Horovod's name for "without MPI".
constinit const SettingKind<std::string> kController = {
    "auto, mpi, or gloo (without MPI)",
    [](Text text) { return one_of(text, "auto", "mpi", "gloo"); }, &write_text};
// Of tensors in host memory. There is no Gloo here: it means the default.
constinit const SettingKind<std::string> kCpuOperations = {
    "shm, mpi, tcp or gloo (which means shm)",
    [](Text text) { return one_of(text, "shm", "mpi", "tcp", "gloo"); }, &write_text};
// Of tensors in the memory of GPUs.
constinit const SettingKind<std::string> kGpuOperations = {
    "none, auto, nccl, ipc or host",
    [](Text text) { return one_of(text, "none", "auto", "nccl", "ipc", "host"); }, &write_text};
constinit const SettingKind<LogLevel> kLevel = {
    "trace, debug, info, warning, error, fatal or off (also in capitals)", &parse_log_level,
    [](const LogLevel& value) { return name_of(value); }};
constinit const SettingKind<std::vector<int>> kCores = {
    "core numbers with commas, one per local rank", &read_cores, &write_cores};

}  // namespace hvd::kinds
