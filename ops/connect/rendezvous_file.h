#pragma once

#include <optional>
#include <string>

#include "core/base/clock.h"

namespace hvd {

// What rank 0 leaves in a file for the others. Written whole or not at all, readable by this user.
struct RendezvousNote {
  std::string machine;  // boot_id() of rank 0's
  std::string socket;   // name of its unix socket
};

// Waits a few seconds for the file's folder, which may be made together with the job. Throws
// InvalidArgumentError that names it if it is not there by then, or by the deadline.
void await_folder_of(const std::string& path, TimePoint deadline);

// Nothing if there is no file. Throws InvalidArgumentError if it holds something else, is a link or
// a pipe, or belongs to another user than this one and root.
std::optional<RendezvousNote> read_rendezvous_file(const std::string& path);

// Rank 0's file; removed when destroyed, if it is still this one.
class RendezvousFile {
 public:
  // Replaces what an earlier job left behind. Throws InvalidArgumentError if the file cannot be
  // written, holds something else, or another job's rank 0 still listens where it says.
  RendezvousFile(std::string path, RendezvousNote note);
  ~RendezvousFile();
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

 private:
  std::string path_;
  std::string socket_;
};

}  // namespace hvd
