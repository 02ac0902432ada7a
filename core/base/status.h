#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/dtype.h"
#include "core/base/tensor_view.h"

namespace hvd {

// Between ranks and threads an error is a Status; at the API it becomes the exception of its code.
enum class StatusCode : std::uint8_t {
  kOk = 0,
  kInvalidArgument,  // a mistake on this rank
  kMismatch,         // ranks disagree; the job stays usable
  kStalled,          // a peer was silent past the limit
  kTransport,        // a peer is gone, or a port is broken
  kAborted,          // a peer left, or this job was stopped
  kUnsupported,      // not in this build
  kInternal,         // a bug of ours
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const noexcept { return code_ == StatusCode::kOk; }
  StatusCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

  // Throws the exception that belongs to the code; returns when ok.
  void throw_if_error() const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// "kMismatch" and so on, for logs.
const char* name_of(StatusCode code);

inline std::string_view as_text(std::string_view part) {
  return part;
}
inline std::string_view as_text(DType part) {
  return name_of(part);
}
inline std::string as_text(const Shape& part) {
  return to_string(part);
}
template <typename Number>
requires std::is_arithmetic_v<Number> std::string as_text(Number part) {
  return std::to_string(part);
}

// The parts of a message one after the other: texts, numbers, dtypes by name, shapes. Errors with
// several arguments do so with them.
template <typename... Parts>
std::string str_cat(const Parts&... parts) {
  std::string text;
  ((text += as_text(parts)), ...);
  return text;
}

// Base of all exceptions of this library.
class Error : public std::runtime_error {
 public:
  Error(StatusCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  StatusCode code() const noexcept { return code_; }
  Status status() const { return {code_, what()}; }

 private:
  StatusCode code_;
};

// A mistake of the caller on this rank, with the offending values.
class InvalidArgumentError : public Error {
 public:
  template <typename... Parts>
  explicit InvalidArgumentError(const std::string& message, const Parts&... parts)
      : Error(StatusCode::kInvalidArgument, str_cat(message, parts...)) {}
};

// Ranks disagree about one tensor: thrown on every rank, naming two ranks and both values.
class MismatchError : public Error {
 public:
  explicit MismatchError(const std::string& message) : Error(StatusCode::kMismatch, message) {}
};

class UnsupportedError : public Error {
 public:
  template <typename... Parts>
  explicit UnsupportedError(const std::string& message, const Parts&... parts)
      : Error(StatusCode::kUnsupported, str_cat(message, parts...)) {}
};

class InternalError : public Error {
 public:
  template <typename... Parts>
  explicit InternalError(const std::string& message, const Parts&... parts)
      : Error(StatusCode::kInternal, str_cat(message, parts...)) {}
};

// The job cannot go on as it is; what elastic training may recover from. Never a user's mistake.
class HorovodInternalError : public Error {
 public:
  using Error::Error;
};

// A peer was silent past the stall limit.
class StalledError : public HorovodInternalError {
 public:
  explicit StalledError(const std::string& message)
      : HorovodInternalError(StatusCode::kStalled, message) {}
};

// A peer died or cannot be reached; the message has its rank, host and reason.
class PeerLostError : public HorovodInternalError {
 public:
  explicit PeerLostError(const std::string& message)
      : HorovodInternalError(StatusCode::kTransport, message) {}
};

// A peer left in order, or this rank shut down, while work was pending.
class AbortedError : public HorovodInternalError {
 public:
  explicit AbortedError(const std::string& message)
      : HorovodInternalError(StatusCode::kAborted, message) {}
};

// The exception that is being handled, as a Status. Only inside a catch block. What ends the thread
// is thrown again: Python unwinds threads that take the interpreter's lock while it ends, and who
// swallows that is aborted.
Status current_status();

// Throws the exception that is being handled again, with `where` before its message. One that is
// not of this library becomes a std::runtime_error that has it nested.
[[noreturn]] void rethrow_with(const std::string& where);

}  // namespace hvd
