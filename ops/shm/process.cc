#include "ops/shm/process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/system/engine_thread.h"

namespace hvd::engine {
namespace {

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

// The descriptor may be that of a later process with the same number.
UniqueFd open_pidfd(const ProcessId& id) {
  UniqueFd fd = open_pidfd(id.pid);
  if (fd && !is_alive(id)) fd.reset();
  return fd;
}

struct Stat {
  char state = '?';
  std::uint64_t start_time = 0;
};

// Fields 3 and 22 of /proc/PID/stat. The second one, the program's name in parentheses, may hold
// anything, so counting starts behind its last parenthesis.
std::optional<Stat> read_stat(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  Stat stat;
  rest >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  rest >> stat.start_time;
  if (!rest) return std::nullopt;
  return stat;
}

}  // namespace

ProcessId this_process() {
  const auto stat = read_stat(getpid());
  return {getpid(), stat ? stat->start_time : 0};
}

bool is_alive(const ProcessId& process) {
  if (process.start_time == 0) return kill(process.pid, 0) == 0 || errno == EPERM;
  const auto stat = read_stat(process.pid);
  return stat && stat->state != 'Z' && stat->state != 'X' && stat->start_time == process.start_time;
}

UniqueFd open_own_pidfd() {
  return open_pidfd(getpid());
}

ProcessHandle::ProcessHandle(const ProcessId& id, UniqueFd pidfd)
    : id_(id), pidfd_(std::make_shared<const UniqueFd>(std::move(pidfd))) {}

ProcessHandle::ProcessHandle(const ProcessId& id) : ProcessHandle(id, open_pidfd(id)) {}

bool ProcessHandle::ended() const {
  if (pidfd() < 0) return !is_alive(id_);
  pollfd end = {pidfd(), POLLIN, 0};
  return poll(&end, 1, 0) > 0;
}

namespace {

constexpr int kLookAgainMs = 250;  // between looks at processes without a pidfd

}  // namespace

PeerWatch::PeerWatch(const std::vector<ProcessHandle>& peers,
                     std::function<void(std::size_t)> on_end)
    : on_end_(std::move(on_end)), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) {
    throw InternalError(std::string("cannot watch the other ranks, eventfd: ") +
                        std::strerror(errno));
  }
  for (std::size_t i = 0; i < peers.size(); ++i) watched_.push_back({i, peers[i]});
  thread_ = start_engine_thread([this] { run(); });
}

PeerWatch::~PeerWatch() {
  const std::uint64_t one = 1;
  while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void PeerWatch::run() {
  while (true) {
    report_ended();
    std::vector<pollfd> events = {{stop_.get(), POLLIN, 0}};
    for (const Watched& watched : watched_) events.push_back({watched.process.pidfd(), POLLIN, 0});
    const bool look_again =
        std::any_of(watched_.begin(), watched_.end(),
                    [](const Watched& watched) { return watched.process.pidfd() < 0; });
    poll(events.data(), events.size(), look_again ? kLookAgainMs : -1);
    if (events[0].revents != 0) return;
  }
}

void PeerWatch::report_ended() {
  std::erase_if(watched_, [this](const Watched& watched) {
    if (!watched.process.ended()) return false;
    on_end_(watched.index);
    return true;
  });
}

}  // namespace hvd::engine
