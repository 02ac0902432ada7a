#pragma once

#include <string>
#include <string_view>

#include "core/base/unique_fd.h"

namespace hvd {

// Makes `path`, or empties what is there, and opens it for writing as it grows: logs. Goes through
// links as follow_links() does, and into a device or a pipe only if this user's or root's. Throws
// InvalidArgumentError with the path and why. Any thread.
UniqueFd open_output(const std::string& path);

// Writes all of it. False, and errno, if that failed. Any thread.
bool write_all(const UniqueFd& file, std::string_view text) noexcept;

}  // namespace hvd
