#pragma once

#include <cstddef>

#include "core/ports/collective.h"

namespace hvd::host {

// Uninitialised memory of this process, aligned to 64 bytes.
Buffer allocate_buffer(std::size_t bytes);

}  // namespace hvd::host
