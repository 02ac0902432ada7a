#include "core/system/process.h"

#include <cxxabi.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/thread_annotations.h"

namespace hvd::engine {

std::string class_name_of(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed), std::free);
  const std::string full = failed == 0 ? text.get() : type.name();
  const std::size_t colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

namespace {

std::atomic<std::uint32_t> generation_now{0};

void in_child() {
  generation_now.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::uint32_t fork_generation() noexcept {
  static const int installed = pthread_atfork(nullptr, nullptr, &in_child);
  static_cast<void>(installed);
  return generation_now.load(std::memory_order_relaxed);
}

void throw_if_forked(std::uint32_t generation) {
  if (fork_generation() == generation) return;
  throw AbortedError(
      "this process was forked from one that had initialised the engine, whose threads stayed in "
      "the parent; fork before init(), or start a fresh process (multiprocessing: \"spawn\")");
}

void leak_until_exit(std::shared_ptr<const void> memory) {
  static Mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;
  const MutexLock lock(mutex);
  kept->push_back(std::move(memory));
}

}  // namespace hvd::engine
