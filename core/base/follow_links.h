#pragma once

#include <string>
#include <system_error>

namespace hvd {

// The file that `path` names, which need not exist: `path` itself or what its symbolic links lead
// to. As the system does (fs.protected_symlinks), follows no link that another user put into a
// folder where everybody may write, such as /tmp; then, and where links go round, `error` says so.
// For writers that put a new file in the place of an old one. Any thread.
std::string follow_links(const std::string& path, std::error_code& error);

}  // namespace hvd
