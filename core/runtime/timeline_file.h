#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/base/unique_fd.h"

namespace hvd {

// A file with one JSON array that grows, and that whoever opens it finds complete at any moment,
// whether its writer runs, was killed or found no space. Bytes are only ever appended to a second
// copy, `<path>.next`, that then changes places with the first in one system call. Who is still
// reading at the next append but one (0.1 to 0.2 s later in a timeline) reads into what is written,
// and has to read again. Where the file system cannot exchange files (NFS), one copy is appended to
// in place: whole but for moments.
class TimelineFile {
 public:
  // Writes an empty array in place of what was there. Throws InvalidArgumentError with path and
  // reason.
  explicit TimelineFile(const std::string& path);
  // Removes the second copy.
  ~TimelineFile();
  TimelineFile(const TimelineFile&) = delete;
  TimelineFile& operator=(const TimelineFile&) = delete;

  // Appends complete JSON values. False when the system refused (errno says why): the file is what
  // it was before.
  bool append(std::span<const std::string> records);
  // Its size once `records` are appended.
  std::size_t size_with(std::span<const std::string> records) const;

 private:
  struct Copy {
    UniqueFd fd;
    std::size_t end = 0;  // bytes up to the end of the last record
  };
  static bool append_to(Copy& copy, std::string_view text);

  std::string path_;
  std::string next_path_;
  Copy shown_;
  Copy next_;           // without fd: the file system exchanges no files
  std::string behind_;  // what the next copy lacks
};

}  // namespace hvd
