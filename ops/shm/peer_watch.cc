#include "ops/shm/peer_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/system/engine_thread.h"

namespace hvd {
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

}  // namespace hvd
