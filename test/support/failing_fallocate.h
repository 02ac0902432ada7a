#pragma once

#include <cstddef>

namespace hvd::engine::test {

// While one lives, posix_fallocate() of this test program returns `error` for what is longer than
// `longest` bytes: as it does where no memory is left (ENOSPC), or for a signal (EINTR).
class FailingFallocate {
 public:
  explicit FailingFallocate(int error, std::size_t longest = 0);
  ~FailingFallocate();
  FailingFallocate(const FailingFallocate&) = delete;
  FailingFallocate& operator=(const FailingFallocate&) = delete;

  // Calls that failed while the last one lived.
  static int refusals();
};

}  // namespace hvd::engine::test
