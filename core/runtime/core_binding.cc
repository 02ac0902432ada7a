#include "core/runtime/core_binding.h"

#include <dirent.h>
#include <sched.h>

#include <cstdlib>
#include <memory>
#include <thread>

namespace hvd {
namespace {

std::vector<int> cores_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

// A thread that ends meanwhile does not matter, nor one that may not be moved.
void bind_all_threads(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  const auto close = [](DIR* folder) { closedir(folder); };
  const std::unique_ptr<DIR, decltype(close)> tasks(opendir("/proc/self/task"), close);
  if (tasks == nullptr) return;
  while (const dirent* entry = readdir(tasks.get())) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread > 0) sched_setaffinity(thread, sizeof set, &set);
  }
}

}  // namespace

std::vector<int> share_of_cores(const std::vector<int>& cores, int local_rank, int local_size) {
  const auto count = static_cast<int>(cores.size());
  const auto each = static_cast<std::ptrdiff_t>(count / local_size);
  if (count == 0 || (each == 0 && local_size % count != 0)) return cores;
  if (each == 0) return {cores[static_cast<std::size_t>(local_rank / (local_size / count))]};
  const auto first = cores.begin() + each * local_rank;
  return {first, first + each};
}

CoreBinding::CoreBinding(int local_rank, int local_size) {
  const std::vector<int> cores = cores_of_this_thread();
  if (local_size < 2 || cores.size() < std::thread::hardware_concurrency()) return;
  const std::vector<int> mine = share_of_cores(cores, local_rank, local_size);
  if (mine.size() == cores.size()) return;
  bind_all_threads(mine);
  before_ = cores;
}

CoreBinding::~CoreBinding() {
  if (!before_.empty()) bind_all_threads(before_);
}

}  // namespace hvd
