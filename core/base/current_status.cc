#include "core/base/current_status.h"

#include <cxxabi.h>

#include <exception>
#include <new>
#include <string>

namespace hvd {

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
