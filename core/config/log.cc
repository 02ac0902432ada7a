#include "core/config/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <string>

#include "core/base/text.h"
#include "core/config/config.h"
#include "core/config/setting_kinds.h"

namespace hvd {
namespace {

constexpr std::array<const char*, 7> kNames = {"trace", "debug", "info", "warning",
                                               "error", "fatal", "off"};

std::atomic<int> log_rank{-1};

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto it = std::find(kNames.begin(), kNames.end(), lower);
  if (it == kNames.end()) return std::nullopt;
  return static_cast<LogLevel>(it - kNames.begin());
}

std::string name_of(LogLevel level) {
  return kNames[static_cast<std::size_t>(level)];
}

LogLevel read_log_level() {
  const auto name = environment("HOROVOD_LOG_LEVEL");
  return name ? parse_log_level(*name).value_or(LogLevel::kWarning) : LogLevel::kWarning;
}

void log(LogLevel level, std::string_view text) {
  static const LogLevel threshold = read_log_level();
  static const bool hide_time =
      kinds::kFlag.read(environment("HOROVOD_LOG_HIDE_TIME").value_or("")).value_or(false);
  if (level < threshold || level == LogLevel::kOff) return;
  const int rank = log_rank;
  std::string line = "[hvd";
  if (!hide_time) line += " " + local_time();
  if (rank >= 0) line += " rank " + std::to_string(rank);
  line += "] " + name_of(level) + ": ";
  line.append(text);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);  // one write, so that ranks do not interleave
}

void set_log_rank(int rank) {
  log_rank = rank;
}

}  // namespace hvd
