#include "core/base/random_hex.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/status.h"

namespace hvd {

std::string random_hex(std::size_t digits) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::vector<unsigned char> bytes(digits);
  if (getrandom(bytes.data(), digits, 0) != static_cast<ssize_t>(digits)) {
    throw InternalError(std::string("no random numbers, getrandom: ") + std::strerror(errno));
  }
  std::string text;
  for (const unsigned char byte : bytes) text += kDigits[byte & 15];
  return text;
}

}  // namespace hvd
