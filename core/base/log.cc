#include "core/base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <string>

#include "core/base/config.h"

namespace hvd {
namespace {

constexpr std::array<const char*, 5> kNames = {"debug", "info", "warning", "error", "off"};

std::atomic<int> log_rank{-1};

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

LogLevel read_log_level() {
  const auto name = environment("HOROVOD_LOG_LEVEL");
  return name ? parse_log_level(*name).value_or(LogLevel::kWarning) : LogLevel::kWarning;
}

void set_log_rank(int rank) {
  log_rank = rank;
}

void log(LogLevel level, std::string_view text) {
  static const LogLevel threshold = read_log_level();
  if (level < threshold || level == LogLevel::kOff) return;
  const int rank = log_rank;
  std::string line = "[hvd";
  if (rank >= 0) line += " rank " + std::to_string(rank);
  line += "] " + std::string(kNames[static_cast<std::size_t>(level)]) + ": ";
  line.append(text);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);  // one write, so that ranks do not interleave
}

}  // namespace hvd
