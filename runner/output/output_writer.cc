#include "runner/output/output_writer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "core/base/status.h"
#include "core/system/engine_thread.h"
#include "core/system/files.h"

namespace hvd::runner {
namespace {

constexpr std::size_t kChunk = 1 << 14;  // bytes after which it is known how far writing got

std::string folder_of(int rank, int np) {
  std::string number = std::to_string(rank);
  number.insert(0, std::to_string(np - 1).size() - number.size(), '0');
  return "rank." + number;
}

[[noreturn]] void refuse(const std::string& why) {
  throw InvalidArgumentError("--output-filename: " + why);
}

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
  int broken_fd = -1;  // takes nothing any more
  std::string trouble;
  bool ended = false;

  void run();
  void write_all(int fd, std::string_view text);
  void moved(std::size_t bytes);
  void broke(int fd, int error, std::size_t unwritten);
};

void OutputWriter::State::moved(std::size_t bytes) {
  bool tell = false;
  {
    const std::lock_guard lock(mutex);
    const bool had_room = waiting < kEnough;
    waiting -= bytes;
    written += bytes;
    tell = waiting == 0 || (!had_room && waiting < kEnough);
  }
  if (tell) eventfd_write(changed.get(), 1);
}

// With `unwritten` bytes of what was to be written goes what waits behind it: all of it when a
// reader has left, as then no other reads; else what is for the same place.
void OutputWriter::State::broke(int fd, int error, std::size_t unwritten) {
  {
    const std::lock_guard lock(mutex);
    if (error == EPIPE) {
      left = true;
    } else if (trouble.empty()) {
      const char* name = fd == STDOUT_FILENO ? "standard output" : "standard error";
      trouble = std::string("cannot write ") + name + ": " + std::strerror(error);
    }
    broken_fd = fd;
    waiting -= unwritten;
    std::erase_if(queue, [&](const Text& next) {
      const bool goes = left || next.fd == fd;
      if (goes) waiting -= next.text.size();
      return goes;
    });
  }
  eventfd_write(changed.get(), 1);
}

void OutputWriter::State::write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::write(fd, text.data(), std::min(text.size(), kChunk));
    if (sent >= 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
      moved(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {  // whoever started us made it non-blocking
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return broke(fd, errno, text.size());
    }
  }
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
    write_all(next.fd, next.text);
  }
}

OutputWriter::OutputWriter() : state_(std::make_shared<State>()) {
  if (!state_->changed) throw InternalError("eventfd: no descriptor");
  engine::start_engine_thread([state = state_] { state->run(); }).detach();
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
    const int fd = stream == Stream::kStdout ? STDOUT_FILENO : STDERR_FILENO;
    if (state_->left || state_->broken_fd == fd) return;
    state_->waiting += text.size();
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

std::string OutputWriter::trouble() const {
  const std::lock_guard lock(state_->mutex);
  return state_->trouble;
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

RankFiles::RankFiles(const std::string& folder, int np, int first, int count) {
  if (folder.empty()) return;
  for (int rank = first; rank < first + count; ++rank) {
    const auto place = std::filesystem::path(folder) / folder_of(rank, np);
    std::error_code problem;
    std::filesystem::create_directories(place, problem);
    for (const auto& [stream, name] :
         std::array{std::pair(Stream::kStdout, "stdout"), std::pair(Stream::kStderr, "stderr")}) {
      const std::string path = (place / name).string();
      if (problem) refuse("cannot create '" + path + "': " + problem.message());
      try {
        files_.emplace(std::pair(rank, stream), File{engine::open_output(path), path});
      } catch (const InvalidArgumentError& error) {
        refuse(error.what());
      }
    }
  }
}

std::string RankFiles::write(int rank, Stream stream, std::string_view bytes) {
  const auto it = files_.find({rank, stream});
  if (it == files_.end()) return "";
  if (engine::write_all(it->second.fd, bytes)) return "";
  std::string why = it->second.path + ": " + std::strerror(errno) +
                    "; what follows of this rank is not in the file";
  files_.erase(it);
  return why;
}

}  // namespace hvd::runner
