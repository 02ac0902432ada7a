#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/unique_fd.h"
#include "ops/shm/process.h"

namespace hvd {

// Tells when processes of this host end, within milliseconds (pidfd) or, where the system has no
// pidfd, a quarter of a second. Needs no cooperation from them.
class PeerWatch {
 public:
  // `on_end(i)` is called once, on the watching thread, when peers[i] has ended; it must not throw
  // or block.
  PeerWatch(const std::vector<ProcessHandle>& peers, std::function<void(std::size_t)> on_end);
  // After it on_end is not called any more.
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

 private:
  struct Watched {
    std::size_t index;
    ProcessHandle process;
  };
  void run();
  void report_ended();

  std::function<void(std::size_t)> on_end_;
  std::vector<Watched> watched_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace hvd
