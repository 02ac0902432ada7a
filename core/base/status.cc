#include "core/base/status.h"

#include <cxxabi.h>

#include <exception>
#include <new>
#include <string>

namespace hvd {

const char* name_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "kOk";
    case StatusCode::kInvalidArgument:
      return "kInvalidArgument";
    case StatusCode::kMismatch:
      return "kMismatch";
    case StatusCode::kStalled:
      return "kStalled";
    case StatusCode::kTransport:
      return "kTransport";
    case StatusCode::kAborted:
      return "kAborted";
    case StatusCode::kUnsupported:
      return "kUnsupported";
    case StatusCode::kInternal:
      return "kInternal";
  }
  return "unknown status code";
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

}  // namespace hvd
