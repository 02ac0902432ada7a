#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/unique_fd.h"

namespace hvd::engine {

// The file that `path` names, which need not exist: `path` itself or what its symbolic links lead
// to. Follows no link of another user than this one and root, who could lead us to a file of ours:
// the user who first makes a folder in /tmp decides what is in it. Then, and where links go round,
// `error` says so. For writers that put a new file in the place of an old one. Any thread.
std::string follow_links(const std::string& path, std::error_code& error);

// Opens /dev/null as each standard stream that the process was started without: what it opens next
// would be taken for that stream, and a line printed there would go into a socket of ours. Throws
// InternalError if it cannot. Any thread.
void open_standard_streams();

// Makes `path`, or empties what is there, and opens it for writing as it grows: logs. Goes through
// links as follow_links() does, and into a device or a pipe only if this user's or root's. Throws
// InvalidArgumentError with the path and why. Any thread.
UniqueFd open_output(const std::string& path);

// Writes all of it. False, and errno, if that failed. Any thread.
bool write_all(const UniqueFd& file, std::string_view text) noexcept;

// Writes a file so that `path` names either what it named before or the complete new content, even
// if the process is killed. Where the file system can, the content has no name until it is
// complete, so that a killed process leaves nothing behind; else a name that no other process has.
//
// A symbolic link stays, and what it points to gets the content (see follow_links()). What was
// there keeps its mode (of its permissions, read, write and execute); a new file has what the umask
// leaves of 0666. Every failure throws InvalidArgumentError naming path and reason. One thread.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // leaves nothing unless commit() succeeded
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  // Moves the file to its place; `to_disk` first waits until the disk has it.
  void commit(bool to_disk = true);

 private:
  void create();
  void give_name();
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;       // as the caller named it
  std::string target_;     // what is replaced
  std::string temporary_;  // empty: the content has no name
  UniqueFd fd_;
};

}  // namespace hvd::engine
