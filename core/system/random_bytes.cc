#include "core/system/random_bytes.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/status.h"

namespace hvd {

void draw_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = getrandom(bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw InternalError(std::string("no random numbers, getrandom: ") + std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

std::string random_hex(std::size_t digits) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::vector<std::byte> bytes(digits);
  draw_random(bytes);
  std::string text;
  for (const std::byte byte : bytes) text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  return text;
}

}  // namespace hvd
