#include "core/system/marked_processes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>

namespace hvd::engine {
namespace {

constexpr int kRounds = 200;  // of a millisecond; one that forks all the time needs some
constexpr int kExecRounds = 20;

// kHidden: its environment is empty, as that of any process is in the middle of execve().
enum class Marked { kNo, kYes, kHidden };

Marked is_marked(const std::string& process, const std::string& entry) {
  const std::string folder = "/proc/" + process;
  std::ifstream file(folder + "/environ", std::ios::binary);
  if (!file) return Marked::kNo;  // another user's, or gone
  const std::string environment{std::istreambuf_iterator<char>(file), {}};
  if (environment.empty()) {
    std::error_code none;  // threads of the kernel, and the dead, run no program
    const bool runs = !std::filesystem::read_symlink(folder + "/exe", none).empty();
    return runs ? Marked::kHidden : Marked::kNo;
  }
  const std::string end(1, '\0');
  const bool found = (end + environment).find(end + entry + end) != std::string::npos;
  return found ? Marked::kYes : Marked::kNo;
}

// Holds on to the process while it looks, so that no other one with its number is killed.
Marked kill_if_marked(const std::string& process, const std::string& entry) {
  const int number = std::stoi(process);
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, number, 0));
  const Marked marked = is_marked(process, entry);
  if (marked == Marked::kYes && pidfd >= 0) {
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
  } else if (marked == Marked::kYes) {
    kill(number, SIGKILL);  // before Linux 5.3
  }
  if (pidfd >= 0) close(pidfd);
  return marked;
}

}  // namespace

void kill_marked(const std::string& entry) {
  const std::string own = std::to_string(getpid());
  for (int round = 0; round < kRounds; ++round) {
    bool found = false;
    std::error_code error;
    for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
         at.increment(error)) {
      const std::string name = at->path().filename();
      const bool is_process = std::ranges::all_of(
          name, [](char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; });
      if (!is_process || name == own) continue;
      const Marked marked = kill_if_marked(name, entry);
      found |= marked == Marked::kYes || (marked == Marked::kHidden && round < kExecRounds);
    }
    if (!found) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until they are gone
  }
}

}  // namespace hvd::engine
