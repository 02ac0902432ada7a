#include "test/support/threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/clock.h"

namespace hvd::engine::test {
namespace {

const std::filesystem::path kTasks = "/proc/self/task";

// Or has ended.
bool is_asleep(pid_t thread) {
  std::ifstream in(kTasks / std::to_string(thread) / "stat");
  const std::string stat(std::istreambuf_iterator<char>(in), {});
  const std::size_t name_ends = stat.rfind(')');  // the state follows, behind a space
  return name_ends + 2 >= stat.size() ||
         std::string("SZX").find(stat[name_ends + 2]) != std::string::npos;
}

}  // namespace

std::size_t thread_count() {
  // ThreadSanitizer starts a thread of its own together with the first one of the program.
  static std::once_flag first;
  std::call_once(first, [] {
    pid_t joined = 0;
    std::thread([&] { joined = thread_id(); }).join();
    while (std::filesystem::exists(kTasks / std::to_string(joined))) std::this_thread::yield();
  });
  const std::filesystem::directory_iterator tasks(kTasks);
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

bool thread_count_falls_to(std::size_t threads) {
  const TimePoint deadline = Clock::now() + std::chrono::seconds(10);
  while (thread_count() > threads) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

pid_t thread_id() {
  return gettid();
}

void wait_until_asleep(const std::atomic<pid_t>& thread) {
  const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
  while (thread == 0 || !is_asleep(thread)) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "thread " << thread << " does not sleep";
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void wait_until_others_are_asleep() {
  for (const auto& task : std::filesystem::directory_iterator(kTasks)) {
    const pid_t thread = std::stoi(task.path().filename().string());
    if (thread != thread_id()) wait_until_asleep(thread);
  }
}

}  // namespace hvd::engine::test
