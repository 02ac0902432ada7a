#include "core/system/core_binding.h"

#include <dirent.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

// 0 = this thread. None if it has ended.
std::vector<int> cores_of(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(thread, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

// Of this process, whose cores are exactly these.
std::set<pid_t> threads_on(const std::vector<int>& cores) {
  std::set<pid_t> threads;
  const auto close = [](DIR* folder) { closedir(folder); };
  const std::unique_ptr<DIR, decltype(close)> tasks(opendir("/proc/self/task"), close);
  if (tasks == nullptr) return threads;
  while (const dirent* entry = readdir(tasks.get())) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread > 0 && cores_of(thread) == cores) threads.insert(thread);
  }
  return threads;
}

// A thread that ends meanwhile does not matter, nor one that may not be moved.
void bind(const std::set<pid_t>& threads, const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  for (const pid_t thread : threads) sched_setaffinity(thread, sizeof set, &set);
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
  const std::vector<int> cores = cores_of(0);
  if (local_size < 2 || cores.size() < std::thread::hardware_concurrency()) return;
  mine_ = share_of_cores(cores, local_rank, local_size);
  if (mine_.size() == cores.size()) return;
  bound_alike_ = threads_on(mine_);
  bind(threads_on(cores), mine_);
  before_ = cores;
}

CoreBinding::~CoreBinding() {
  if (before_.empty()) return;
  std::set<pid_t> moved = threads_on(mine_);
  for (const pid_t thread : bound_alike_) moved.erase(thread);
  bind(moved, before_);
}

void pin_this_thread(std::span<const int> cores, int local_rank) {
  if (cores.empty()) return;
  if (static_cast<std::size_t>(local_rank) >= cores.size()) {
    throw InvalidArgumentError("HOROVOD_THREAD_AFFINITY has " + std::to_string(cores.size()) +
                               " cores, but none for local rank " + std::to_string(local_rank));
  }
  const int core = cores[static_cast<std::size_t>(local_rank)];
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(core), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return;
  throw InvalidArgumentError("HOROVOD_THREAD_AFFINITY: core " + std::to_string(core) +
                             " for local rank " + std::to_string(local_rank) + ": " +
                             std::strerror(errno));
}

}  // namespace hvd::engine
