#pragma once

#include <memory>

namespace hvd {

// Memory that must not be freed stays until the process ends: another rank, or a device that hangs,
// may still use it. Any thread.
void leak_until_exit(std::shared_ptr<const void> memory);

}  // namespace hvd
