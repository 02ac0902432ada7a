#include "ops/connect/rendezvous.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <thread>

#include "core/base/status.h"
#include "core/system/host.h"
#include "core/system/interruptible_waits.h"
#include "ops/connect/local_socket.h"
#include "ops/connect/meeting.h"

namespace hvd::engine {
namespace {

constexpr const char* kFirstLine = "horovod_cpp rendezvous 2";
constexpr std::size_t kLongestNote = 8192;       // bytes
constexpr std::chrono::seconds kFolderGrace{5};  // a path that was mistyped is told soon
constexpr std::chrono::milliseconds kBetweenLooks{20};

[[noreturn]] void fail_file(const std::string& path, const std::string& why) {
  throw InvalidArgumentError("file://" + path + ": " + why);
}

bool is_in_use(const RendezvousNote& note) {
  if (note.machine != boot_id()) return false;
  std::string why;
  return static_cast<bool>(connect_locally(note.socket, why));
}

void write_whole(const std::string& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) fail_file(path, std::strerror(errno));
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    const int error = errno;
    unlink(path.c_str());
    fail_file(path, std::strerror(error));
  }
}

// What others put into the folder is neither waited for nor followed nor believed: a pipe, a link
// to /dev/zero, a file that sends the ranks elsewhere.
std::optional<std::string> read_own(const std::string& path) {
  // ESTALE is NFS's for a file that was replaced or removed after this host had looked it up.
  const auto is_gone = [] { return errno == ENOENT || errno == ESTALE; };
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ELOOP) {
    fail_file(path, "is a symbolic link, which is not followed; choose a file of its own");
  }
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) {
    if (is_gone()) return std::nullopt;
    fail_file(path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) fail_file(path, "is not a regular file; choose a file of its own");
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    fail_file(path, "belongs to another user (uid " + std::to_string(status.st_uid) +
                        "); choose a file in a folder of your own");
  }
  std::string text(kLongestNote, '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  if (got < 0 && is_gone()) return std::nullopt;
  if (got < 0) fail_file(path, std::strerror(errno));
  text.resize(static_cast<std::size_t>(got));
  return text;
}

}  // namespace

void await_folder_of(const std::string& path, TimePoint deadline) {
  const auto folder = std::filesystem::path(path).parent_path();
  const TimePoint limit = std::min(deadline, Clock::now() + kFolderGrace);
  for (std::error_code error; !std::filesystem::is_directory(folder, error);) {
    if (Clock::now() >= limit) {
      fail_file(path,
                "there is no folder " + folder.string() + "; make it first, or choose another");
    }
    std::this_thread::sleep_until(InterruptibleWaits::look_before(Clock::now() + kBetweenLooks));
    InterruptibleWaits::look();
  }
}

std::optional<RendezvousNote> read_rendezvous_file(const std::string& path) {
  const auto text = read_own(path);
  if (!text) return std::nullopt;
  std::istringstream lines(*text);
  std::string first;
  RendezvousNote note;
  std::getline(lines, first);
  std::getline(lines, note.machine);
  std::getline(lines, note.socket);
  std::getline(lines, note.secret);
  const bool usable = lines && first == kFirstLine && !note.socket.empty() && !note.secret.empty();
  if (!usable) fail_file(path, "exists and is not from a rendezvous; choose a file of its own");
  parse_meeting_point("unix:" + note.socket, "file://" + path);  // throws if it is no name
  for (std::string address; std::getline(lines, address);) {
    const MeetingPoint point = parse_meeting_point("tcp://" + address, "file://" + path);
    note.addresses.push_back({point.where, point.port});
  }
  return note;
}

RendezvousFile::RendezvousFile(std::string path, RendezvousNote note)
    : path_(std::move(path)), socket_(note.socket) {
  if (const auto old = read_rendezvous_file(path_); old && is_in_use(*old)) {
    fail_file(path_, "the rank 0 of another job is there; choose another file for each job");
  }
  const std::string draft = path_ + "." + random_hex(16);  // not taken yet
  std::string text = std::string(kFirstLine) + "\n" + note.machine + "\n" + note.socket + "\n" +
                     note.secret + "\n";
  for (const TcpAddress& each : note.addresses) text += to_string(each) + "\n";
  write_whole(draft, text);
  if (rename(draft.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(draft.c_str());
    fail_file(path_, std::strerror(error));
  }
}

RendezvousFile::~RendezvousFile() {
  try {
    const auto note = read_rendezvous_file(path_);
    if (note && note->socket == socket_) unlink(path_.c_str());
  } catch (const Error&) {  // another job's by now
  }
}

}  // namespace hvd::engine
