#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "core/base/unique_fd.h"

namespace hvd {

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

}  // namespace hvd
