#include "core/system/fork_guard.h"

#include <pthread.h>

#include <atomic>

#include "core/base/status.h"

namespace hvd {
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

}  // namespace hvd
