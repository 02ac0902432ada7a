#include "runner/stdin_pump.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace hvd::runner {
namespace {

constexpr std::size_t kChunk = 4096;  // bytes

bool may_read_stdin() {
  return isatty(STDIN_FILENO) == 0 || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

}  // namespace

void StdinPump::connect(UniqueFd to) {
  to_ = std::move(to);
  set_nonblocking(to_.get());
}

pollfd StdinPump::wanted() const {
  if (!to_) return {-1, 0, 0};
  if (!waiting_.empty()) return {to_.get(), POLLOUT, 0};
  return {may_read_stdin() ? STDIN_FILENO : -1, POLLIN, 0};
}

void StdinPump::move() {
  if (waiting_.empty()) {
    std::array<char, kChunk> buffer;
    const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got > 0) waiting_.assign(buffer.data(), static_cast<std::size_t>(got));
    at_end_ = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
  }
  if (!waiting_.empty()) {
    const ssize_t sent = ::write(to_.get(), waiting_.data(), waiting_.size());
    if (sent > 0) waiting_.erase(0, static_cast<std::size_t>(sent));
    at_end_ = sent < 0 && errno != EINTR && errno != EAGAIN;  // nobody reads it
  }
  if (at_end_) to_.reset();
}

}  // namespace hvd::runner
