#include "test/support/threads.h"

#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "core/base/clock.h"

namespace hvd::test {

std::size_t thread_count() {
  // ThreadSanitizer starts a thread of its own together with the first one of the program.
  static std::once_flag first;
  std::call_once(first, [] { std::thread([] {}).join(); });
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

bool thread_count_falls_to(std::size_t threads) {
  const TimePoint deadline = Clock::now() + std::chrono::seconds(10);
  while (thread_count() != threads) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace hvd::test
