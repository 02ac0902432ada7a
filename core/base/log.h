#pragma once

#include <optional>
#include <string_view>

namespace hvd {

enum class LogLevel { kDebug = 0, kInfo, kWarning, kError, kOff };

// One line to stderr, prefixed with level and rank, if HOROVOD_LOG_LEVEL (debug, info, warning,
// error, off; default warning) lets it pass. Any thread.
void log(LogLevel level, std::string_view text);

// The level of that name, if there is one.
std::optional<LogLevel> parse_log_level(std::string_view name);

// HOROVOD_LOG_LEVEL; kWarning where it is unset or malformed, which read_config() refuses.
LogLevel read_log_level();

// The rank that log lines carry; -1 (the default) for none.
void set_log_rank(int rank);

}  // namespace hvd
