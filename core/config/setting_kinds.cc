#include "core/config/setting_kinds.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/base/text.h"

namespace hvd {
namespace {

std::string write_number(double value) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

std::optional<double> parse_between(std::string_view text, double least, double most) {
  const auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value) || *value < least || *value > most) return std::nullopt;
  return value;
}

// `unit` is what the number counts.
std::optional<Duration> parse_duration(std::string_view text, Duration unit, double most) {
  const auto value = parse_between(text, 0, most);
  if (!value) return std::nullopt;
  return std::chrono::round<Duration>(unit * *value);  // what is written is read as the same
}

std::optional<std::string> one_of(std::initializer_list<std::string_view> known,
                                  std::string_view text) {
  if (std::find(known.begin(), known.end(), text) == known.end()) return std::nullopt;
  return std::string(text);
}

}  // namespace

std::optional<std::size_t> WholeNumber::read(std::string_view text) {
  return parse_number<std::size_t>(text);
}
std::string WholeNumber::write(std::size_t value) {
  return std::to_string(value);
}

std::optional<std::size_t> PositiveNumber::read(std::string_view text) {
  const auto value = parse_number<std::size_t>(text);
  return value && *value >= 1 ? value : std::nullopt;
}
std::string PositiveNumber::write(std::size_t value) {
  return std::to_string(value);
}

std::optional<std::size_t> Operations::read(std::string_view text) {
  const auto value = parse_number<std::size_t>(text);
  return value && *value <= 1'000'000 ? value : std::nullopt;
}

std::optional<bool> Flag::read(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"0", "false", "no", "off", ""}) {
    if (lower == no) return false;
  }
  return std::nullopt;
}
std::string Flag::write(bool value) {
  return value ? "1" : "0";
}

std::optional<Duration> Milliseconds::read(std::string_view text) {
  return parse_duration(text, std::chrono::milliseconds(1), 1e4);  // more would look like a hang
}
std::string Milliseconds::write(Duration value) {
  return write_number(std::chrono::duration<double, std::milli>(value).count());
}

std::optional<Duration> Seconds::read(std::string_view text) {
  return parse_duration(text, std::chrono::seconds(1), 1e9);
}
std::string Seconds::write(Duration value) {
  return write_number(to_seconds(value));
}

std::optional<Duration> SecondsAboveZero::read(std::string_view text) {
  const auto value = Seconds::read(text);
  return value && *value > Duration::zero() ? value : std::nullopt;
}

std::optional<Duration> PositiveSeconds::read(std::string_view text) {
  const auto value = parse_between(text, 1, 1e6);
  return value ? Seconds::read(text) : std::nullopt;
}

std::optional<double> Fraction::read(std::string_view text) {
  return parse_between(text, 0, 1);
}
std::string Fraction::write(double value) {
  return write_number(value);
}

std::optional<std::string> TimelinePath::read(std::string_view text) {
  return text == "DYNAMIC" ? std::string() : std::string(text);
}

std::optional<std::vector<int>> Cores::read(std::string_view text) {
  std::vector<int> cores;
  if (text.empty()) return cores;
  for (const std::string_view part : split(text, ',')) {
    const auto core = parse_number<int>(part);
    if (!core || *core < 0) return std::nullopt;
    cores.push_back(*core);
  }
  return cores;
}
std::string Cores::write(const std::vector<int>& value) {
  std::string text;
  for (const int core : value) text += (text.empty() ? "" : ",") + std::to_string(core);
  return text;
}

std::optional<std::string> WorldChoice::read(std::string_view text) {
  if (text != "job" && text != "self") return std::nullopt;
  return std::string(text);
}

std::optional<std::string> Controller::read(std::string_view text) {
  if (text == "auto") return std::string(text);
  return Transport::read(text);
}

std::optional<std::string> Check::read(std::string_view text) {
  if (text != "0" && text != "warn" && text != "error") return std::nullopt;
  return std::string(text);
}

std::optional<std::string> ControlTransport::read(std::string_view text) {
  if (text != "tcp" && text != "mpi") return std::nullopt;
  return std::string(text);
}

std::optional<std::string> CpuOperations::read(std::string_view text) {
  return one_of({"shm", "mpi", "gloo"}, text);
}

std::optional<std::string> GpuOperations::read(std::string_view text) {
  return one_of({"none", "auto", "nccl", "ipc", "host"}, text);
}

std::optional<std::string> Transport::read(std::string_view text) {
  return one_of({"mpi", "gloo"}, text);
}

}  // namespace hvd
