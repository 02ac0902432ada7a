#include "core/base/status.h"

#include <cxxabi.h>

#include <exception>
#include <iterator>
#include <new>
#include <string>

namespace hvd {

const char* name_of(StatusCode code) {
  constexpr const char* kNames[] = {"kOk",        "kInvalidArgument", "kMismatch",    "kStalled",
                                    "kTransport", "kAborted",         "kUnsupported", "kInternal"};
  const auto at = static_cast<std::size_t>(code);
  return at < std::size(kNames) ? kNames[at] : "unknown status code";
}

void Status::throw_if_error() const {
  switch (code_) {
    case StatusCode::kOk:
      return;
    case StatusCode::kInvalidArgument:
      throw InvalidArgumentError(message_);
    case StatusCode::kMismatch:
      throw MismatchError(message_);
    case StatusCode::kStalled:
      throw StalledError(message_);
    case StatusCode::kTransport:
      throw PeerLostError(message_);
    case StatusCode::kAborted:
      throw AbortedError(message_);
    case StatusCode::kUnsupported:
      throw UnsupportedError(message_);
    case StatusCode::kInternal:
      throw InternalError(message_);
  }
  throw InternalError("status code " + std::to_string(static_cast<int>(code_)) + ": " + message_);
}

Status current_status() {
  try {
    throw;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return {StatusCode::kTransport, "out of memory"};
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, error.what()};
  } catch (...) {
    return {StatusCode::kInternal, "an exception of an unknown type"};
  }
}

void rethrow_with(const std::string& where) {
  try {
    throw;
  } catch (const Error& error) {
    Status(error.code(), where + error.what()).throw_if_error();
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(std::runtime_error(where + error.what()));
  }
}

}  // namespace hvd
