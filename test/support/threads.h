#pragma once

#include <cstddef>

namespace hvd::test {

// Threads of this process.
std::size_t thread_count();

// Waits until there are so many; false after 10 s. The kernel may list a thread for a moment after
// it was joined.
bool thread_count_falls_to(std::size_t threads);

}  // namespace hvd::test
