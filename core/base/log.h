#pragma once

#include <string_view>

namespace hvd {

enum class LogLevel { kDebug = 0, kInfo, kWarning, kError, kOff };

// One line to stderr, prefixed with level and rank, if HOROVOD_LOG_LEVEL (debug, info, warning,
// error, off; default warning) lets it pass. Any thread.
void log(LogLevel level, std::string_view text);

// The rank that log lines carry; -1 (the default) for none.
void set_log_rank(int rank);

}  // namespace hvd
