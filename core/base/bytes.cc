#include "core/base/bytes.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace hvd {
namespace {

constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio
constexpr std::size_t kWord = sizeof(std::uint64_t);

// One to one in `state` and in `word`, so that a difference in either is never lost.
std::uint64_t mixed(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * kOdd;
  return state ^ (state >> 29);
}

}  // namespace

std::uint64_t content_hash(std::span<const std::byte> bytes) {
  const std::size_t size = bytes.size();
  std::array<std::uint64_t, 4> lanes = {1, 2, 3, 4};  // of multiplications that run side by side
  std::array<std::uint64_t, 4> words{};
  for (; bytes.size() >= sizeof(words); bytes = bytes.subspan(sizeof(words))) {
    std::memcpy(words.data(), bytes.data(), sizeof(words));
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane] = mixed(lanes[lane], words[lane]);
    }
  }
  for (std::size_t lane = 0; !bytes.empty(); ++lane) {
    std::uint64_t word = 0;
    const std::size_t count = std::min(bytes.size(), kWord);
    std::memcpy(&word, bytes.data(), count);
    lanes[lane] = mixed(lanes[lane], word);
    bytes = bytes.subspan(count);
  }
  std::uint64_t hash = mixed(0, size);
  for (const std::uint64_t lane : lanes) hash = mixed(hash, lane);
  return mixed(hash, 0);
}

}  // namespace hvd
