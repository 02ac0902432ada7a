#include "runner/process.h"

#include <fcntl.h>
#include <pty.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"

namespace hvd::runner {
namespace {

[[noreturn]] void throw_errno(const char* call) {
  throw InternalError(call, ": ", std::strerror(errno));
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

void move_fd(int from, int to) {
  if (from >= 0) dup2(from, to);
}

// Why a child could not become a program.
struct Failure {
  int error = 0;
  bool in_folder = false;
};

// After fork(): only calls that are safe there. Returns when it failed.
Failure become(const ChildSpec& spec, char* const* argv, char** environment, pid_t parent) {
  setsid();
  if (spec.death_signal != 0) {
    prctl(PR_SET_PDEATHSIG, spec.death_signal);
    if (getppid() != parent) _exit(1);  // it died before prctl
  }
  move_fd(spec.stdin_fd, STDIN_FILENO);
  move_fd(spec.stdout_fd, STDOUT_FILENO);
  move_fd(spec.stderr_fd, STDERR_FILENO);
  std::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!spec.folder.empty() && chdir(spec.folder.c_str()) != 0) return {errno, true};
  environ = environment;  // execvp() looks into its PATH
  execvp(argv[0], argv);
  return {errno, false};
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool is_executable_file(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr std::array kNotPassedOn = {SIGKILL, SIGSTOP, SIGCHLD, SIGPIPE, SIGTTIN, SIGTTOU,
                                     SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS};

// Signals for which `wanted` holds. What nohup or a shell in the background has set to be ignored
// stays so.
template <typename Wanted>
sigset_t signals(Wanted wanted) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (signal > SIGSYS && signal < SIGRTMIN) continue;  // the C library's own
    const auto excluded = std::find(kNotPassedOn.begin(), kNotPassedOn.end(), signal);
    if (excluded != kNotPassedOn.end() || is_ignored(signal)) continue;
    if (wanted(signal)) sigaddset(&set, signal);
  }
  return set;
}

UniqueFd watch(const sigset_t& set) {
  const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) throw_errno("signalfd");
  return UniqueFd(fd);
}

constexpr Duration kKilledAfter = std::chrono::milliseconds(1500);  // for a process asked to end
constexpr std::size_t kStdinRead = 4096;                            // bytes

bool may_read_stdin() {
  return isatty(STDIN_FILENO) == 0 || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) throw_errno("pipe2");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Pipe make_terminal() {
  int ours = -1;
  int program = -1;
  termios settings{};
  cfmakeraw(&settings);  // bytes pass unchanged
  settings.c_cflag |= CREAD;
  if (openpty(&ours, &program, nullptr, &settings, nullptr) != 0) throw_errno("openpty");
  fcntl(ours, F_SETFD, FD_CLOEXEC);
  fcntl(program, F_SETFD, FD_CLOEXEC);
  return {UniqueFd(ours), UniqueFd(program)};
}

void set_nonblocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

ChildStart start_child(const ChildSpec& spec) {
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> variables;
  for (const auto& [name, value] : spec.environment) variables.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers(arguments);
  std::vector<char*> environment = pointers(variables);
  Pipe report = make_pipe();  // closes on exec; carries a Failure otherwise
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return {-1, errno};
  if (pid == 0) {
    const Failure failure = become(spec, argv.data(), environment.data(), parent);
    [[maybe_unused]] const auto written = write(report.write_end.get(), &failure, sizeof failure);
    _exit(127);
  }
  report.write_end.reset();
  Failure failure;
  while (read(report.read_end.get(), &failure, sizeof failure) < 0 && errno == EINTR) {
  }
  return {pid, failure.error, failure.in_folder};
}

void kill_children(const std::function<bool(pid_t)>& which) {
  const std::string children = "/proc/self/task/" + std::to_string(getpid()) + "/children";
  for (bool found = true; found;) {  // their own children become ours
    found = false;
    std::ifstream list(children);
    for (pid_t pid = 0; list >> pid;) {
      found |= which(pid) && kill(pid, SIGKILL) == 0 && waitpid(pid, nullptr, 0) == pid;
    }
  }
}

UniqueFd watch_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set = signals([](int) { return true; });
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return watch(set);
}

bool is_stop_signal(int signal) {
  return std::find(kStopSignals.begin(), kStopSignals.end(), signal) != kStopSignals.end();
}

UniqueFd watch_stop_signals() {
  return watch(signals(is_stop_signal));
}

void leave_signals_to_others() {
  const sigset_t set = signals([](int signal) { return !is_stop_signal(signal); });
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

int read_signal(int fd) {
  signalfd_siginfo info{};
  return read(fd, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

bool read_available(int fd, std::string& out, std::size_t limit) {
  std::array<char, 1 << 14> buffer;
  std::size_t total = 0;
  bool looked_again = false;
  while (total < limit) {
    const ssize_t got = read(fd, buffer.data(), std::min(buffer.size(), limit - total));
    if (got > 0) {
      out.append(buffer.data(), static_cast<std::size_t>(got));
      total += static_cast<std::size_t>(got);
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EIO && !std::exchange(looked_again, true)) {
      // A pseudo terminal says so when its last writer is gone, now and then before its last bytes
      // have come through.
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    } else {
      return got < 0 && errno == EAGAIN;
    }
  }
  return true;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

Environment current_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string find_in_path(const std::string& name, const std::string& path) {
  for (const std::string_view entry : split(path, ':')) {
    std::error_code ignored;
    const std::filesystem::path folder =
        std::filesystem::canonical(entry.empty() ? "." : entry, ignored);
    if (!folder.empty() && is_executable_file(folder / name)) return folder / name;
  }
  return "";
}

void StdinPump::connect(UniqueFd to, std::string first) {
  to_ = std::move(to);
  waiting_ = std::move(first);
  set_nonblocking(to_.get());
}

pollfd StdinPump::wanted() const {
  if (!to_) return {-1, 0, 0};
  if (!waiting_.empty()) return {to_.get(), POLLOUT, 0};
  return {may_read_stdin() ? STDIN_FILENO : -1, POLLIN, 0};
}

void StdinPump::move() {
  if (waiting_.empty()) {
    std::array<char, kStdinRead> buffer;
    const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got > 0) waiting_.assign(buffer.data(), static_cast<std::size_t>(got));
    at_end_ = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
  }
  if (!waiting_.empty()) {
    const ssize_t sent = ::write(to_.get(), waiting_.data(), waiting_.size());
    if (sent > 0) waiting_.erase(0, static_cast<std::size_t>(sent));
    at_end_ = sent < 0 && errno != EINTR && errno != EAGAIN;  // it has no reader
  }
  if (at_end_) to_.reset();
}

std::vector<UniqueFd> RootProcesses::start(const LaunchPlan& plan, int in) {
  std::vector<UniqueFd> output;
  for (const LaunchCommand& command : plan.commands) {
    Pipe address = make_pipe();
    const std::string line = plan.agent_address + "\n";
    [[maybe_unused]] const auto fits = write(address.write_end.get(), line.data(), line.size());
    address.write_end.reset();
    Pipe out = make_pipe();
    Pipe err = make_pipe();
    const ChildStart child =
        start_child({.argv = command.argv,
                     .environment = command.environment,
                     .stdin_fd = running_.empty() ? in : address.read_end.get(),
                     .stdout_fd = out.write_end.get(),
                     .stderr_fd = err.write_end.get(),
                     .death_signal = SIGTERM});
    if (child.error != 0) {
      throw InternalError("could not start ", command.argv[0], ": ", std::strerror(child.error));
    }
    running_.push_back(child.pid);
    sessions_.push_back(child.pid);
    for (Pipe* pipe : {&out, &err}) {
      set_nonblocking(pipe->read_end.get());
      output.push_back(std::move(pipe->read_end));
    }
  }
  return output;
}

bool RootProcesses::note_end(pid_t pid, int status) {
  if (std::erase(running_, pid) == 0) return false;
  const auto which = std::find(sessions_.begin(), sessions_.end(), pid) - sessions_.begin();
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code != 0 && !asked_) failures_.push_back({static_cast<std::size_t>(which), code});
  if (ended()) ended_at_ = Clock::now();
  return true;
}

void RootProcesses::enforce_end(TimePoint now) {
  if (now < next_deadline()) return;
  const int signal = std::exchange(asked_, true) ? SIGKILL : SIGTERM;
  for (const pid_t pid : running_) kill(-pid, signal);
  next_blow_ = now + kKilledAfter;
}

void RootProcesses::kill_orphans() const {
  kill_children([this](pid_t pid) {
    return std::find(sessions_.begin(), sessions_.end(), getsid(pid)) != sessions_.end();
  });
}

}  // namespace hvd::runner
