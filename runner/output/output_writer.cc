#include "runner/output/output_writer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/system/engine_thread.h"

namespace hvd::runner {
namespace {

constexpr std::size_t kChunk = 1 << 14;  // bytes after which it is known how far writing got

}  // namespace

struct OutputWriter::State {
  struct Text {
    int fd;
    std::string text;
  };

  UniqueFd changed{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  std::condition_variable added;
  std::deque<Text> queue;
  std::size_t waiting = 0;  // bytes, with those that are being written
  std::size_t written = 0;
  bool left = false;
  bool ended = false;

  void run();
  bool write_all(int fd, std::string_view text);
  void moved(std::size_t bytes, bool reader_left);
};

void OutputWriter::State::moved(std::size_t bytes, bool reader_left) {
  bool tell = false;
  {
    const std::lock_guard lock(mutex);
    const bool had_room = waiting < kEnough;
    waiting -= bytes;
    written += bytes;
    left = left || reader_left;
    tell = reader_left || waiting == 0 || (!had_room && waiting < kEnough);
  }
  if (tell) eventfd_write(changed.get(), 1);
}

// False when the reader has left.
bool OutputWriter::State::write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::write(fd, text.data(), std::min(text.size(), kChunk));
    if (sent >= 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
      moved(static_cast<std::size_t>(sent), false);
    } else if (errno == EAGAIN) {  // whoever started us made it non-blocking
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      moved(text.size(), true);
      return false;
    }
  }
  return true;
}

void OutputWriter::State::run() {
  while (true) {
    Text next;
    {
      std::unique_lock lock(mutex);
      added.wait(lock, [&] { return ended || !queue.empty(); });
      if (queue.empty()) return;
      next = std::move(queue.front());
      queue.pop_front();
    }
    if (write_all(next.fd, next.text)) continue;
    const std::lock_guard lock(mutex);
    queue.clear();
    waiting = 0;
  }
}

OutputWriter::OutputWriter() : state_(std::make_shared<State>()) {
  if (!state_->changed) throw InternalError("eventfd: no descriptor");
  start_engine_thread([state = state_] { state->run(); }).detach();
}

OutputWriter::~OutputWriter() {
  drain(-1, std::chrono::seconds(1));
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
    state_->queue.clear();
  }
  state_->added.notify_one();
}

void OutputWriter::write(Stream stream, std::string text) {
  if (text.empty()) return;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->left) return;
    state_->waiting += text.size();
    const int fd = stream == Stream::kStdout ? STDOUT_FILENO : STDERR_FILENO;
    state_->queue.push_back({fd, std::move(text)});
  }
  state_->added.notify_one();
}

bool OutputWriter::has_room() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting < kEnough;
}

bool OutputWriter::reader_left() const {
  const std::lock_guard lock(state_->mutex);
  return state_->left;
}

int OutputWriter::changed() const {
  return state_->changed.get();
}

void OutputWriter::acknowledge() {
  eventfd_t count = 0;
  eventfd_read(state_->changed.get(), &count);
}

void OutputWriter::drain(int stop, std::optional<Duration> patience) {
  std::size_t before = 0;
  TimePoint moved = Clock::now();
  while (true) {
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->waiting == 0 || state_->left) return;
      if (std::exchange(before, state_->written) != state_->written) moved = Clock::now();
    }
    if (patience && Clock::now() - moved >= *patience) return;
    std::array<pollfd, 2> polls = {{{changed(), POLLIN, 0}, {stop, POLLIN, 0}}};
    poll(polls.data(), polls.size(), patience ? 50 : 1000);
    if (polls[1].revents != 0) return;
    if (polls[0].revents != 0) acknowledge();
  }
}

bool OutputWriter::one_place() {
  struct stat out {};
  struct stat err {};
  return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
         out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

}  // namespace hvd::runner
