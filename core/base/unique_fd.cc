#include "core/base/unique_fd.h"

#include <unistd.h>

namespace hvd {

void UniqueFd::reset() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0) close(fd);
}

}  // namespace hvd
