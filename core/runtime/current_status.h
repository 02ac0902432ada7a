#pragma once

#include "core/base/status.h"

namespace hvd {

// The exception that is being handled, as a Status. Only inside a catch block.
Status current_status() noexcept;

}  // namespace hvd
