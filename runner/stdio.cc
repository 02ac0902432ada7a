#include "runner/stdio.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace hvd::runner {
namespace {

constexpr std::size_t kChunk = 4096;  // a pipe that poll() calls writable takes this much at once

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

bool OutputWriter::write(Stream stream, std::string_view text) {
  const int fd = stream == Stream::kStdout ? STDOUT_FILENO : STDERR_FILENO;
  while (!text.empty() && !dropping_) {
    std::array<pollfd, 2> polls = {{{fd, POLLOUT, 0}, {stop_.get(), POLLIN, 0}}};
    poll(polls.data(), polls.size(), -1);
    if (polls[0].revents == 0) {
      dropping_ = polls[1].revents != 0;
      continue;
    }
    const ssize_t sent = ::write(fd, text.data(), std::min(text.size(), kChunk));
    if (sent < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool OutputWriter::one_terminal() const {
  struct stat out {};
  struct stat err {};
  return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
         out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

}  // namespace hvd::runner
