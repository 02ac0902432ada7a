#include "ops/rendezvous/rendezvous_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "core/base/host.h"
#include "core/base/interruptible_waits.h"
#include "core/base/status.h"
#include "ops/rendezvous/meeting_point.h"

namespace hvd {
namespace {

constexpr const char* kFirstLine = "horovod_cpp rendezvous 1";
constexpr std::chrono::seconds kFolderGrace{5};  // a path that was mistyped is told soon
constexpr std::chrono::milliseconds kBetweenLooks{20};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InvalidArgumentError("file://" + path + ": " + why);
}

bool is_in_use(const RendezvousNote& note) {
  if (note.machine != boot_id()) return false;
  std::string why;
  return static_cast<bool>(connect_to({MeetingPoint::Kind::kUnix, note.socket, 0}, why));
}

void write_whole(const std::string& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) refuse(path, std::strerror(errno));
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    const int error = errno;
    unlink(path.c_str());
    refuse(path, std::strerror(error));
  }
}

}  // namespace

void await_folder_of(const std::string& path, TimePoint deadline) {
  const auto folder = std::filesystem::path(path).parent_path();
  const TimePoint limit = std::min(deadline, Clock::now() + kFolderGrace);
  for (std::error_code error; !std::filesystem::is_directory(folder, error);) {
    if (Clock::now() >= limit) {
      refuse(path, "there is no folder " + folder.string() + "; make it first, or choose another");
    }
    std::this_thread::sleep_until(InterruptibleWaits::look_before(Clock::now() + kBetweenLooks));
    InterruptibleWaits::look();
  }
}

std::optional<RendezvousNote> read_rendezvous_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    if (errno == ENOENT) return std::nullopt;
    refuse(path, std::strerror(errno));
  }
  std::string first;
  RendezvousNote note;
  std::getline(file, first);
  std::getline(file, note.machine);
  std::getline(file, note.socket);
  const bool usable = file && first == kFirstLine && !note.socket.empty();
  if (!usable) refuse(path, "exists and is not from a rendezvous; choose a file of its own");
  parse_meeting_point("unix:" + note.socket, "file://" + path);  // throws if it is no name
  return note;
}

RendezvousFile::RendezvousFile(std::string path, RendezvousNote note)
    : path_(std::move(path)), socket_(note.socket) {
  if (const auto old = read_rendezvous_file(path_); old && is_in_use(*old)) {
    refuse(path_, "the rank 0 of another job is there; choose another file for each job");
  }
  const std::string draft = path_ + "." + std::to_string(getpid());
  unlink(draft.c_str());  // of a process that had our number
  write_whole(draft, std::string(kFirstLine) + "\n" + note.machine + "\n" + note.socket + "\n");
  if (rename(draft.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(draft.c_str());
    refuse(path_, std::strerror(error));
  }
}

RendezvousFile::~RendezvousFile() {
  try {
    const auto note = read_rendezvous_file(path_);
    if (note && note->socket == socket_) unlink(path_.c_str());
  } catch (const Error&) {  // somebody else's by now
  }
}

}  // namespace hvd
