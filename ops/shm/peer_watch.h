#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "ops/shm/process.h"

namespace hvd {

// Tells when processes of this host end, within milliseconds (pidfd) or, where the system has no
// pidfd, a quarter of a second. Needs no cooperation from them.
class PeerWatch {
 public:
  // `on_end(i)` is called once, on the watching thread, when peers[i] has ended; it must not throw
  // or block. Peers that are this very process are not watched.
  PeerWatch(std::vector<ProcessId> peers, std::function<void(std::size_t)> on_end);
  // After it on_end is not called any more.
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

 private:
  struct Watched {
    std::size_t index;
    ProcessId process;
    int pidfd;  // -1: look again and again
  };
  void run();
  void report_ended(const std::function<bool(const Watched&)>& ended);

  std::function<void(std::size_t)> on_end_;
  std::vector<Watched> watched_;
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace hvd
