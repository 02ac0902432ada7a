#include "ops/shm/peer_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/base/status.h"

namespace hvd {
namespace {

constexpr int kLookAgainMs = 250;  // between looks at processes without a pidfd

int open_pidfd(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

}  // namespace

PeerWatch::PeerWatch(std::vector<ProcessId> peers, std::function<void(std::size_t)> on_end)
    : on_end_(std::move(on_end)) {
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  if (stop_fd_ < 0) {
    throw InternalError(std::string("cannot watch the other ranks, eventfd: ") +
                        std::strerror(errno));
  }
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (peers[i].pid == getpid()) continue;
    watched_.push_back({i, peers[i], open_pidfd(peers[i].pid)});
  }
  // The program's signals are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PeerWatch::~PeerWatch() {
  const std::uint64_t one = 1;
  while (write(stop_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
  for (const Watched& watched : watched_) {
    if (watched.pidfd >= 0) close(watched.pidfd);
  }
  close(stop_fd_);
}

void PeerWatch::run() {
  // A first look: a pidfd may belong to a later process that got the number of a dead one.
  report_ended([](const Watched& watched) { return !is_alive(watched.process); });
  while (true) {
    std::vector<pollfd> events = {{stop_fd_, POLLIN, 0}};
    for (const Watched& watched : watched_) events.push_back({watched.pidfd, POLLIN, 0});
    const bool look_again = std::any_of(watched_.begin(), watched_.end(),
                                        [](const Watched& watched) { return watched.pidfd < 0; });
    poll(events.data(), events.size(), look_again ? kLookAgainMs : -1);
    if (events[0].revents != 0) return;
    auto event = events.begin();
    report_ended([&event](const Watched& watched) {
      ++event;
      return watched.pidfd < 0 ? !is_alive(watched.process) : event->revents != 0;
    });
  }
}

void PeerWatch::report_ended(const std::function<bool(const Watched&)>& ended) {
  std::vector<Watched> remaining;
  for (const Watched& watched : watched_) {
    if (!ended(watched)) {
      remaining.push_back(watched);
      continue;
    }
    on_end_(watched.index);
    if (watched.pidfd >= 0) close(watched.pidfd);
  }
  watched_ = std::move(remaining);
}

}  // namespace hvd
