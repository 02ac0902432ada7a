#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "runner/process.h"
#include "test/support/scoped_environment.h"

// Starts the real hvdrun, for tests.
namespace hvd::runner {

// Bounds are for what never ends; what is waited for takes a second or ten on an idle machine.
// Programs that have to be stopped run for kSleep seconds, which is longer still.
inline constexpr Duration kNever = std::chrono::seconds(300);
inline const std::string kSleep = "sleep 3600";

inline constexpr const char* kRank = "${OMPI_COMM_WORLD_RANK-$HOROVOD_RANK}";

struct Result {
  int code = -1;  // 128 + signal when hvdrun itself was killed
  std::string out;
  std::string err;
};

// One start of hvdrun; ends what is left of it when the test is over. `through`: words before it,
// of a program that becomes it.
class Launch {
 public:
  explicit Launch(std::vector<std::string> arguments, const std::string& input = "",
                  Environment environment = current_environment(),
                  const std::vector<std::string>& through = {}) {
    Pipe in = make_pipe();
    Pipe out = make_pipe();
    Pipe err = make_pipe();
    arguments.insert(arguments.begin(), HVDRUN_PATH);
    arguments.insert(arguments.begin(), through.begin(), through.end());
    const ChildStart child = start_child({.argv = std::move(arguments),
                                          .environment = std::move(environment),
                                          .stdin_fd = in.read_end.get(),
                                          .stdout_fd = out.write_end.get(),
                                          .stderr_fd = err.write_end.get()});
    EXPECT_EQ(child.error, 0);
    pid_ = child.pid;
    out_ = std::move(out.read_end);
    err_ = std::move(err.read_end);
    set_nonblocking(out_.get());
    set_nonblocking(err_.get());
    EXPECT_EQ(write(in.write_end.get(), input.data(), input.size()),
              static_cast<ssize_t>(input.size()));
  }
  ~Launch() {
    if (pid_ > 0) kill(pid_, SIGTERM);
  }

  pid_t pid() const { return pid_; }
  // What wait_for() has read.
  const std::string& output() const { return result_.out; }

  void stop_reading() { out_.reset(); }
  // Nothing was read, and nothing more can be written.
  bool output_is_full() const {
    int bytes = 0;
    return ioctl(out_.get(), FIONREAD, &bytes) == 0 &&
           bytes > fcntl(out_.get(), F_GETPIPE_SZ) - 4096;
  }
  // Reads until `text` has been printed; false after kNever.
  bool wait_for(const std::string& text) {
    return read_until([&] { return result_.out.find(text) != std::string::npos; });
  }
  Result finish() {
    EXPECT_TRUE(read_until([&] { return !out_ && !err_; })) << "hvdrun did not end";
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    result_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result_;
  }

 private:
  template <typename Done>
  bool read_until(Done done) {
    const TimePoint limit = Clock::now() + kNever;
    while (!done() && Clock::now() < limit) {
      std::array<pollfd, 2> polls = {{{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}}};
      poll(polls.data(), polls.size(), 100);
      if (polls[0].revents != 0 && !read_available(out_.get(), result_.out, 1 << 20)) out_.reset();
      if (polls[1].revents != 0 && !read_available(err_.get(), result_.err, 1 << 20)) err_.reset();
    }
    return done();
  }

  pid_t pid_ = -1;
  UniqueFd out_;
  UniqueFd err_;
  Result result_;
};

inline Result run(std::vector<std::string> arguments, const std::string& input = "") {
  return Launch(std::move(arguments), input).finish();
}

inline Result run_shell(int np, const std::string& script, const std::string& input = "") {
  return run({"-np", std::to_string(np), "sh", "-c", script}, input);
}

inline std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

inline bool is_running(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return static_cast<bool>(stat >> number >> name >> state) && state != "Z";
}

// Every process id that a rank printed after `word`, "pid 123".
inline std::vector<pid_t> printed_pids(const std::string& text, const std::string& word = "pid") {
  std::vector<pid_t> pids;
  const std::regex pattern(word + " (\\d+)");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    pids.push_back(std::stoi((*it)[1]));
  }
  return pids;
}

// Whether `condition` holds, or does before kNever.
template <typename Condition>
bool comes_true(Condition condition) {
  const TimePoint limit = Clock::now() + kNever;
  while (!condition()) {
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

inline bool all_gone(const std::vector<pid_t>& pids) {
  return comes_true([&] { return std::none_of(pids.begin(), pids.end(), is_running); });
}

// What hvdrun does with a signal (the second parameter), with this HOROVOD_CONTROLLER (the first).
class SignalCase : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  void SetUp() override { environment_.set("HOROVOD_CONTROLLER", std::get<0>(GetParam())); }

 private:
  ScopedEnvironment environment_;
};

}  // namespace hvd::runner
