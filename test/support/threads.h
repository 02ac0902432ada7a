#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>

namespace hvd::engine::test {

// Threads of this process.
std::size_t thread_count();

// Waits until there are no more than so many; false after 10 s. The kernel may list a thread for a
// moment after it was joined.
bool thread_count_falls_to(std::size_t threads);

// What the kernel calls the thread that asks.
pid_t thread_id();

// Waits until a thread sleeps, which writes its thread_id() when that is the next thing it does
// (0 = not yet). Fails the test after 30 s.
void wait_until_asleep(const std::atomic<pid_t>& thread);

// The same for all threads of this process but the calling one.
void wait_until_others_are_asleep();

}  // namespace hvd::engine::test
