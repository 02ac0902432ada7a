#include "runner/root_processes.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>

#include "core/base/status.h"
#include "runner/process.h"

namespace hvd::runner {

void RootProcesses::start(const LaunchPlan& plan, int in, int out, int err) {
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const LaunchCommand& command : plan.commands) {
    const ChildStart child = start_child({.argv = command.argv,
                                          .environment = command.environment,
                                          .stdin_fd = running_.empty() ? in : nothing.get(),
                                          .stdout_fd = out,
                                          .stderr_fd = err,
                                          .death_signal = SIGTERM});
    if (child.error != 0) {
      throw InternalError("could not start " + command.argv[0] + ": " + std::strerror(child.error));
    }
    running_.push_back(child.pid);
    sessions_.push_back(child.pid);
  }
}

bool RootProcesses::note_end(pid_t pid, int status) {
  if (std::erase(running_, pid) == 0) return false;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (exit_code_ == 0) exit_code_ = code;
  return true;
}

void RootProcesses::signal(int number) const {
  for (const pid_t pid : running_) kill(-pid, number);
}

void RootProcesses::kill_orphans() const {
  const std::string children = "/proc/self/task/" + std::to_string(getpid()) + "/children";
  for (bool found = true; found;) {  // their own children become ours
    found = false;
    std::ifstream list(children);
    for (pid_t pid = 0; list >> pid;) {
      if (std::find(sessions_.begin(), sessions_.end(), getsid(pid)) == sessions_.end()) continue;
      if (kill(pid, SIGKILL) != 0 || waitpid(pid, nullptr, 0) != pid) continue;
      found = true;
    }
  }
}

}  // namespace hvd::runner
