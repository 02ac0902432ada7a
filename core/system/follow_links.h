#pragma once

#include <string>
#include <system_error>

namespace hvd {

// The file that `path` names, which need not exist: `path` itself or what its symbolic links lead
// to. Follows no link of another user than this one and root, who could lead us to a file of ours:
// whoever makes a folder in /tmp first decides what is in it. Then, and where links go round,
// `error` says so. For writers that put a new file in the place of an old one. Any thread.
std::string follow_links(const std::string& path, std::error_code& error);

}  // namespace hvd
