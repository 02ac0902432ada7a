#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/unique_fd.h"

namespace hvd::engine {

// A process of this host, as its PID namespace numbers it. The start time tells it from a later one
// that got the same number.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot; 0 where /proc is not there

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

ProcessId this_process();

// False once the process ended, even before it is reaped. Of a process of this PID
// namespace.
bool is_alive(const ProcessId& process);

// A descriptor of this process that polls readable when it has ended, also for a process of another
// PID namespace to which it was handed. Empty where the system has none.
UniqueFd open_own_pidfd();

// A process whose end others want to see. Copies are the same process.
class ProcessHandle {
 public:
  // `pidfd`: what that process opened of itself and gave us; empty if its system has none, then it
  // is one of this PID namespace.
  ProcessHandle(const ProcessId& id, UniqueFd pidfd);
  // A process of this PID namespace.
  explicit ProcessHandle(const ProcessId& id);

  const ProcessId& id() const noexcept { return id_; }
  // To poll for its end; -1 = ended() is to be asked again and again.
  int pidfd() const noexcept { return pidfd_->get(); }
  bool ended() const;

 private:
  ProcessId id_;
  std::shared_ptr<const UniqueFd> pidfd_;
};

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

}  // namespace hvd::engine
