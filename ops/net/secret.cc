#include "ops/net/secret.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/system/host.h"

namespace hvd::engine {
namespace {

constexpr std::array<std::uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t read_big_endian(const std::byte* at) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | std::to_integer<std::uint32_t>(at[i]);
  return word;
}

template <typename T>
void write_big_endian(T value, std::byte* at) {
  for (std::size_t i = sizeof value; i-- > 0; value >>= 8) at[i] = static_cast<std::byte>(value);
}

}  // namespace

void Sha256::compress(std::span<const std::byte, kBlockBytes> block) noexcept {
  using std::rotr;
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) w[i] = read_big_endian(block.data() + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
    const std::uint32_t s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> change = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += change[i];
}

void Sha256::add(std::span<const std::byte> bytes) noexcept {
  total_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t count = std::min(kBlockBytes - used_, bytes.size());
    std::memcpy(block_.data() + used_, bytes.data(), count);
    bytes = bytes.subspan(count);
    used_ += count;
    if (used_ < kBlockBytes) return;
    compress(block_);
    used_ = 0;
  }
}

Sha256Digest Sha256::finish() noexcept {
  constexpr std::array<std::byte, kBlockBytes> kPadding = {std::byte{0x80}};
  std::array<std::byte, 8> bits;
  write_big_endian(total_ * 8, bits.data());
  const std::size_t before_length = kBlockBytes - bits.size();
  const std::size_t padding = (before_length + kBlockBytes - used_ - 1) % kBlockBytes + 1;
  add(std::span(kPadding).first(padding));
  add(bits);
  Sha256Digest digest;
  for (std::size_t i = 0; i < state_.size(); ++i) {
    write_big_endian(state_[i], digest.data() + 4 * i);
  }
  return digest;
}

Sha256Digest hmac_sha256(std::span<const std::byte> key,
                         std::span<const std::span<const std::byte>> parts) noexcept {
  std::array<std::byte, 64> block{};
  if (key.size() > block.size()) {
    Sha256 hash;
    hash.add(key);
    const Sha256Digest digest = hash.finish();
    std::copy(digest.begin(), digest.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  for (std::byte& each : block) each ^= std::byte{0x36};
  Sha256 inner;
  inner.add(block);
  for (const auto part : parts) inner.add(part);
  const Sha256Digest digest = inner.finish();
  for (std::byte& each : block) each ^= std::byte{0x36 ^ 0x5c};
  Sha256 outer;
  outer.add(block);
  outer.add(digest);
  return outer.finish();
}

Sha256Digest hmac_sha256(std::span<const std::byte> key,
                         std::span<const std::byte> message) noexcept {
  return hmac_sha256(key, std::span(&message, 1));
}

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

}  // namespace hvd::engine
