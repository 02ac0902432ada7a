#include "ops/net/tcp_descriptor.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace hvd {
namespace {

// One more than the descriptor; 0 = free. Fixed, because a child may not allocate: sockets beyond
// it stay open in children.
std::array<std::atomic<int>, 4096> open_sockets{};
constexpr std::size_t kNowhere = open_sockets.size();

void close_in_child() {
  for (auto& entry : open_sockets) {
    const int fd = entry.exchange(0) - 1;
    if (fd >= 0) close(fd);
  }
}

std::size_t remember(int fd) {
  static const int installed = pthread_atfork(nullptr, nullptr, &close_in_child);
  static_cast<void>(installed);
  for (std::size_t i = 0; i < open_sockets.size(); ++i) {
    int free = 0;
    if (open_sockets[i].compare_exchange_strong(free, fd + 1)) return i;
  }
  return kNowhere;
}

}  // namespace

TcpDescriptor::TcpDescriptor(int fd) : fd_(fd) {
  if (fd >= 0) place_ = remember(fd);
}

void TcpDescriptor::reset() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return;
  // In a child it is closed already, and the number may be another file's.
  if (place_ == kNowhere || open_sockets[place_].exchange(0) == fd + 1) close(fd);
}

}  // namespace hvd
