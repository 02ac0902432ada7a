#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/config/log.h"

// How settings of each kind are read and written. read() gives nothing for malformed text; write()
// gives text that read() takes. kAccepted completes "expected ...".
namespace hvd {

struct WholeNumber {
  static constexpr const char* kAccepted = "a whole number of at least 0";
  static std::optional<std::size_t> read(std::string_view text);
  static std::string write(std::size_t value);
};

struct PositiveNumber {
  static constexpr const char* kAccepted = "a whole number of at least 1";
  static std::optional<std::size_t> read(std::string_view text);
  static std::string write(std::size_t value);
};

// That are kept in memory.
struct Operations {
  static constexpr const char* kAccepted = "a whole number from 0 to 1000000";
  static std::optional<std::size_t> read(std::string_view text);
  static std::string write(std::size_t value) { return WholeNumber::write(value); }
};

struct Flag {
  static constexpr const char* kAccepted = "0, 1, true, false, yes, no, on or off";
  static std::optional<bool> read(std::string_view text);
  static std::string write(bool value);
};

struct Milliseconds {
  static constexpr const char* kAccepted = "milliseconds, a number from 0 to 1e4";
  static std::optional<Duration> read(std::string_view text);
  static std::string write(Duration value);
};

struct Seconds {
  static constexpr const char* kAccepted = "seconds, a number from 0 to 1e9";
  static std::optional<Duration> read(std::string_view text);
  static std::string write(Duration value);
};

struct SecondsAboveZero {
  static constexpr const char* kAccepted = "seconds, more than 0 and at most 1e9";
  static std::optional<Duration> read(std::string_view text);
  static std::string write(Duration value) { return Seconds::write(value); }
};

// For limits that there have to be.
struct PositiveSeconds {
  static constexpr const char* kAccepted = "seconds, a number from 1 to 1e6";
  static std::optional<Duration> read(std::string_view text);
  static std::string write(Duration value) { return Seconds::write(value); }
};

struct Fraction {
  static constexpr const char* kAccepted = "a number from 0 to 1";
  static std::optional<double> read(std::string_view text);
  static std::string write(double value);
};

struct Text {
  static constexpr const char* kAccepted = "text";
  static std::optional<std::string> read(std::string_view text) { return std::string(text); }
  static std::string write(const std::string& value) { return value; }
};

// DYNAMIC is Horovod's word for "no file yet": start_timeline() always works here.
struct TimelinePath {
  static constexpr const char* kAccepted = "a file name, or DYNAMIC";
  static std::optional<std::string> read(std::string_view text);
  static std::string write(const std::string& value) { return value; }
};

struct Level {
  static constexpr const char* kAccepted =
      "trace, debug, info, warning, error, fatal or off (also in capitals)";
  static std::optional<LogLevel> read(std::string_view text) { return parse_log_level(text); }
  static std::string write(LogLevel value) { return name_of(value); }
};

struct Cores {
  static constexpr const char* kAccepted = "core numbers with commas, one a local rank";
  static std::optional<std::vector<int>> read(std::string_view text);
  static std::string write(const std::vector<int>& value);
};

// What to do about what is probably a mistake.
struct Check {
  static constexpr const char* kAccepted = "0 (nothing), warn or error";
  static std::optional<std::string> read(std::string_view text);
  static std::string write(const std::string& value) { return value; }
};

struct ControlTransport {
  static constexpr const char* kAccepted = "tcp or mpi";
  static std::optional<std::string> read(std::string_view text);
  static std::string write(const std::string& value) { return value; }
};

// What init() joins.
struct WorldChoice {
  static constexpr const char* kAccepted = "job or self";
  static std::optional<std::string> read(std::string_view text);
  static std::string write(const std::string& value) { return value; }
};

// gloo is Horovod's word for "without MPI".
struct Controller {
  static constexpr const char* kAccepted = "auto, mpi, or gloo (without MPI, on one machine)";
  static std::optional<std::string> read(std::string_view text);
  static std::string write(const std::string& value) { return value; }
};

// Of tensors in host memory. There is no Gloo here: it means the default.
struct CpuOperations {
  static constexpr const char* kAccepted = "shm, mpi or gloo (which means shm)";
  static std::optional<std::string> read(std::string_view text);
  static std::string write(const std::string& value) { return value; }
};

// Of tensors in the memory of GPUs.
struct GpuOperations {
  static constexpr const char* kAccepted = "none, auto, nccl, ipc or host";
  static std::optional<std::string> read(std::string_view text);
  static std::string write(const std::string& value) { return value; }
};

// mpi and gloo mean the same engine here.
struct Transport {
  static constexpr const char* kAccepted = "mpi or gloo (both mean: shared memory and MPI)";
  static std::optional<std::string> read(std::string_view text);
  static std::string write(const std::string& value) { return value; }
};

}  // namespace hvd
