#include "test/support/failing_fallocate.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <atomic>

namespace {

std::atomic<int> failure{0};
std::atomic<std::size_t> allowed{0};
std::atomic<int> refused{0};

}  // namespace

// In the place of the C library's, which it calls.
extern "C" int posix_fallocate(int fd, off_t offset, off_t length) {
  if (failure != 0 && static_cast<std::size_t>(length) > allowed) {
    ++refused;
    return failure;
  }
  static const auto real =
      reinterpret_cast<int (*)(int, off_t, off_t)>(dlsym(RTLD_NEXT, "posix_fallocate"));
  return real(fd, offset, length);
}

namespace hvd::engine::test {

FailingFallocate::FailingFallocate(int error, std::size_t longest) {
  refused = 0;
  allowed = longest;
  failure = error;
}

FailingFallocate::~FailingFallocate() {
  failure = 0;
}

int FailingFallocate::refusals() {
  return refused;
}

}  // namespace hvd::engine::test
