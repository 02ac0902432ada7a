#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hvd {

enum class LogLevel { kTrace = 0, kDebug, kInfo, kWarning, kError, kFatal, kOff };

// One line to stderr, prefixed with the time (unless HOROVOD_LOG_HIDE_TIME is set), the rank and
// the level, if HOROVOD_LOG_LEVEL lets it pass. Any thread.
void log(LogLevel level, std::string_view text);

// The level of that name (trace, debug, info, warning, error, fatal, off; also in capitals), if
// there is one.
std::optional<LogLevel> parse_log_level(std::string_view name);
std::string name_of(LogLevel level);

// HOROVOD_LOG_LEVEL; kWarning where it is unset or malformed, which read_config() refuses.
LogLevel read_log_level();

// The rank that log lines carry; -1 (the default) for none.
void set_log_rank(int rank);

}  // namespace hvd
