#pragma once

#include <memory>

namespace hvd {

// Memory that must not be freed stays until the process ends: another rank, or a device that hangs,
// may still use it. Any thread.
void keep_for_ever(std::shared_ptr<const void> memory);

}  // namespace hvd
