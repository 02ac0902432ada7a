#include "ops/net/secret.h"

#include "core/system/random_bytes.h"

namespace hvd {

JobKey draw_key() {
  JobKey key;
  draw_random(key);
  return key;
}

bool same_secret(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  if (a.size() != b.size()) return false;
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace hvd
