#include "ops/net/secret.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/status.h"

namespace hvd {

JobKey draw_key() {
  JobKey key;
  draw_random(key);
  return key;
}

void draw_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = getrandom(bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw InternalError(std::string("no random numbers for a key, getrandom: ") +
                          std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

bool same_secret(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  if (a.size() != b.size()) return false;
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace hvd
