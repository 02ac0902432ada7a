#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hvd::engine {

using Sha256Digest = std::array<std::byte, 32>;

// SHA-256 (FIPS 180-4) of what add() was given, in pieces of any size.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes) noexcept;
  // The object must not be used afterwards.
  Sha256Digest finish() noexcept;

 private:
  static constexpr std::size_t kBlockBytes = 64;

  void compress(std::span<const std::byte, kBlockBytes> block) noexcept;

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlockBytes> block_{};
  std::size_t used_ = 0;     // bytes of block_
  std::uint64_t total_ = 0;  // bytes added
};

// HMAC-SHA-256 (RFC 2104) of all `parts`, one after the other. Who varies more than one length must
// make the parts tell where each of them ends.
Sha256Digest hmac_sha256(std::span<const std::byte> key,
                         std::span<const std::span<const std::byte>> parts) noexcept;
Sha256Digest hmac_sha256(std::span<const std::byte> key,
                         std::span<const std::byte> message) noexcept;

// What only the processes of one job know, drawn for each job.
using JobKey = std::array<std::byte, 32>;

JobKey draw_key();

// Takes equally long wherever the two differ; their lengths are no secret.
bool same_secret(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

}  // namespace hvd::engine
