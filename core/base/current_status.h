#pragma once

#include "core/base/status.h"

namespace hvd {

// The exception that is being handled, as a Status. Only inside a catch block. What ends the thread
// is thrown again: Python unwinds threads that take the interpreter's lock while it ends, and who
// swallows that is aborted.
Status current_status();

}  // namespace hvd
