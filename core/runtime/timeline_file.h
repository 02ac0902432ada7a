#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hvd {

// A file with one JSON array that grows: the closing bracket is overwritten by the next records and
// written again behind them by the same system call, so that whoever dies leaves a valid file.
class TimelineFile {
 public:
  // Writes an empty array over what was there. Throws InvalidArgumentError with path and reason.
  explicit TimelineFile(const std::string& path);
  ~TimelineFile();
  TimelineFile(const TimelineFile&) = delete;
  TimelineFile& operator=(const TimelineFile&) = delete;

  // Appends complete JSON values. False when the system refused (errno says why); the file is then
  // what it was before, as far as the system lets us.
  bool append(std::span<const std::string> records);
  // Its size once `records` are appended.
  std::size_t size_with(std::span<const std::string> records) const;

 private:
  bool append_piece(std::span<const std::string> records);

  int fd_;
  std::int64_t end_ = 0;  // bytes up to the end of the last record
};

}  // namespace hvd
