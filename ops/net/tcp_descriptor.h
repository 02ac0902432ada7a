#pragma once

#include <cstddef>
#include <utility>

namespace hvd {

// Owns a socket that children of this process do not keep open: its connection ends with the
// process that made it, whatever that has forked. Thread-safe as far as different ones are.
class TcpDescriptor {
 public:
  TcpDescriptor() = default;
  explicit TcpDescriptor(int fd);
  TcpDescriptor(TcpDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), place_(other.place_) {}
  TcpDescriptor& operator=(TcpDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(place_, other.place_);
    return *this;
  }
  ~TcpDescriptor() { reset(); }
  void reset();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
  std::size_t place_ = 0;  // in the list of what children close
};

}  // namespace hvd
